"""Stands in for the script of SoulX-LiveAct: the request is a JSON file, and the result lies in the
working folder under a name made from the names of the picture and the sound."""

import argparse
import json
import os
import wave

from generate_video import write_video
from PIL import Image


def main():
    parser = argparse.ArgumentParser()
    for name in ("ckpt_dir", "wav2vec_dir", "input_json", "size"):
        parser.add_argument(f"--{name}")
    for name in ("fps", "seed"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--audio_cfg", type=float)
    switches = "t5_cpu offload_cache fp8_kv_cache block_offload dura_print steam_audio mean_memory"
    for name in switches.split():
        parser.add_argument(f"--{name}", action="store_true")
    args = parser.parse_args()
    width, height = (int(side) for side in args.size.split("*"))
    with open(args.input_json, encoding="utf-8") as file:
        (data,) = json.load(file)
    assert data["prompt"]
    stems = [os.path.basename(data[key]).split(".")[0] for key in ("cond_image", "cond_audio")]
    with wave.open(data["cond_audio"]) as sound:
        seconds = sound.getnframes() / sound.getframerate()
    picture = Image.open(data["cond_image"]).convert("RGB").resize((width, height))
    print(f"Done Block 0: platform {os.environ.get('PLATFORM')}")
    write_video("_".join(stems) + ".mp4", picture, seconds)


if __name__ == "__main__":
    main()
