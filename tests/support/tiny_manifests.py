"""Manifests of the tiny pipelines: what a real one says, at tiny sizes."""

from __future__ import annotations

_DRAWING = """
config:
  num_inference_steps: {default: 3}
  guidance_scale: {default: 4.0}
  width: {default: 32}
  height: {default: 32}
  scheduler:
"""
_PICTURES = """
  num_images_per_prompt: {default: 1}
  response_format: {choices: [png, jpeg, webp]}
"""
_WORDS = "inputs: {prompt: {required: true}, negative_prompt: }\n"

SD15 = f"""
id: tiny-sd15
tasks:
  text2image:
    options: {{pipeline: StableDiffusionPipeline}}
  image2image:
    inputs: {{image: {{required: true}}}}
    config: {{strength: {{default: 0.7}}}}
    options:
      pipeline: StableDiffusionImg2ImgPipeline
      call: {{width: null, height: null}}
  inpaint:
    inputs: {{image: {{required: true}}, mask: {{required: true}}}}
    config: {{strength: {{default: 1.0}}}}
    options: {{pipeline: StableDiffusionInpaintPipeline}}
{_WORDS}{_DRAWING}{_PICTURES}
"""
SDXL = SD15.replace("tiny-sd15", "tiny-sdxl").replace(
    "pipeline: StableDiffusion", "pipeline: StableDiffusionXL"
)
SD3 = f"""
id: tiny-sd3
tasks: {{text2image: {{options: {{pipeline: StableDiffusion3Pipeline}}}}}}
{_WORDS}{_DRAWING}{_PICTURES}
"""
FLUX = f"""
id: tiny-flux
tasks: {{text2image: {{options: {{pipeline: FluxPipeline}}}}}}
inputs: {{prompt: {{required: true}}}}
{_DRAWING}{_PICTURES}
  max_sequence_length: {{default: 48}}
"""
PIXART = f"""
id: tiny-pixart
tasks:
  text2image:
    options:
      pipeline: PixArtSigmaPipeline
      fixed: {{use_resolution_binning: false, clean_caption: false, max_sequence_length: 16}}
{_WORDS}{_DRAWING}{_PICTURES}
"""
WAN_T2V = f"""
id: tiny-wan-t2v
tasks:
  text2video:
    options: {{pipeline: WanPipeline, fixed: {{max_sequence_length: 16}}}}
{_WORDS}{_DRAWING}
  num_frames: {{default: 9}}
  fps: {{default: 16}}
"""
WAN_I2V = f"""
id: tiny-wan-i2v
tasks:
  image2video:
    options: {{pipeline: WanImageToVideoPipeline, fixed: {{max_sequence_length: 16}}}}
inputs: {{prompt: {{required: true}}, image: {{required: true}}}}
{_DRAWING}
  num_frames: {{default: 9}}
  fps: {{default: 16}}
"""
SVD = """
id: tiny-svd
tasks:
  image2video:
    options:
      pipeline: StableVideoDiffusionPipeline
      call: {fps: fps}
inputs: {image: {required: true}}
config:
  num_inference_steps: {default: 2}
  width: {default: 32}
  height: {default: 32}
  num_frames: {default: 4}
  fps: {default: 7}
  decode_chunk_size: {default: 2}
"""
