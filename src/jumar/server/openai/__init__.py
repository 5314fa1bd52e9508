"""OpenAI's routes for this server's own models: pictures, videos, speech, transcripts.

Each body takes OpenAI's fields, and the keys of the model's manifest beside them (`seed`,
`num_inference_steps`): whatever is neither is refused. A field that the model cannot honour is
refused too, unless its value asks for nothing.
"""

from __future__ import annotations
