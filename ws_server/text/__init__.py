"""Text as it is written becomes segments as they can be spoken; pure, without a clock."""

from ws_server.text.path import TextPath
from ws_server.text.rules import SegmentRules
from ws_server.text.scripts import unspoken_chars
from ws_server.text.segment import TextSegment

__all__ = ["SegmentRules", "TextPath", "TextSegment", "unspoken_chars"]
