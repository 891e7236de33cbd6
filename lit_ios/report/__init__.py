"""What a run came to, as one HTML file that needs no network: `lit-ios report RUN …`."""

from lit_ios.report.facts import RunFacts
from lit_ios.report.pages import write_report

__all__ = ["RunFacts", "write_report"]
