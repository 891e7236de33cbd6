"""Parts as a user might write them."""

import torch
from torch import nn

from lit_ios.rule import Encoder, Head, Memory, join


class Residual(Head):
    """Residual blocks with dropout and layer normalisation."""

    def __init__(self, state_dim, memory_dim, width=6, dropout=0.2):
        super().__init__(width)
        self.first = nn.Linear(state_dim + memory_dim, width)
        self.block = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.Mish())
        self.dropout = nn.Dropout(dropout)

    def features(self, state, h):
        x = self.first(join(state, h))
        return x + self.dropout(self.block(x))


class Dueling(Head):
    """Q = V ± A/2, with layers of its own after the features."""

    def __init__(self, state_dim, memory_dim):
        super().__init__(5)
        self.body = nn.Sequential(nn.Linear(state_dim + memory_dim, 5), nn.Softplus())
        self.q = nn.Linear(5, 2)

    def features(self, state, h):
        return self.body(join(state, h))

    def values(self, features):
        value, advantage = self.q(features).unbind(-1)
        return torch.stack([value + advantage / 2, value - advantage / 2], dim=-1)


class LoopHead(Head):
    """Something that torch.func cannot evaluate for several members at once."""

    def __init__(self, state_dim, memory_dim):
        super().__init__(4)
        self.layer = nn.Linear(state_dim + memory_dim, 4)

    def features(self, state, h):
        x = self.layer(join(state, h))
        return x.tanh() if float(x.detach().sum()) < 1e9 else x  # looks at the numbers


class BatchNormHead(Head):
    def __init__(self, state_dim, memory_dim):
        super().__init__(4)
        self.body = nn.Sequential(nn.Linear(state_dim + memory_dim, 4), nn.BatchNorm1d(4))

    def features(self, state, h):
        return self.body(join(state, h))


class Average(Memory):
    """h = ½h + ½ tanh(W s), written row by row."""

    def __init__(self, state_dim, members=1, units=2):
        super().__init__(units, members)
        self.weight = nn.Parameter(torch.randn(members, state_dim, units) * 0.3)

    def _drive(self, state):
        weight = self.weight[0] if self.members == 1 else self.weight
        return (state @ weight).tanh()

    def advance(self, h, state, t):
        return (h + self._drive(state).to(h.dtype)) / 2

    def scan(self, state, t, first_row):
        drive, rows = self._drive(state), []
        for row in range(state.shape[-2]):
            before = rows[-1] if int(first_row[row]) != row else torch.zeros_like(drive[..., 0, :])
            rows.append((before + drive[..., row, :]) / 2)
        return torch.stack(rows, dim=-2)


class Logarithms(Encoder):
    """log(1 + |x|) beside each number."""

    def __init__(self, columns, categories=None, factor=1.0):
        super().__init__(columns, categories)
        self.factor = factor
        self.feature_names = self.columns + tuple(f"log {name}" for name in self.columns)

    @property
    def arguments(self):
        return super().arguments | {"factor": self.factor}

    def forward(self, values):
        return torch.cat([values, self.factor * values.abs().log1p()], dim=1)
