"""Stands in for the script of SoulX-FlashTalk and SoulX-FlashHead: the same arguments, the same log
lines, the same files; a prompt says how it misbehaves. It needs PyAV and Pillow, no torch."""

import argparse
import json
import os
import sys
import time
import wave
from pathlib import Path

import av
from PIL import Image

FPS = 25


def arguments():
    parser = argparse.ArgumentParser()
    for name in (
        "ckpt_dir",
        "wav2vec_dir",
        "save_file",
        "input_prompt",
        "cond_image",
        "audio_path",
    ):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--model_type")
    parser.add_argument("--base_seed", type=int, default=9999)
    parser.add_argument("--audio_encode_mode", choices=["stream", "once"], default="stream")
    parser.add_argument("--cpu_offload", action="store_true")
    return parser.parse_args()


def write_video(path, picture, seconds):
    with av.open(path, "w", format="mp4") as box:
        stream = box.add_stream("mpeg4", rate=FPS)
        stream.width, stream.height = picture.size
        frame = av.VideoFrame.from_image(picture)
        for _ in range(round(seconds * FPS)):
            box.mux(stream.encode(frame))
        box.mux(stream.encode())


def main():
    args = arguments()
    # Beside the checkout's other files, as relative as the real script's own configuration is.
    seen = {"argv": sys.argv[1:], "environ": dict(os.environ), "python": sys.executable}
    Path("seen.json").write_text(json.dumps(seen))
    if args.input_prompt == "crash":
        raise RuntimeError("HCCL error: no link to the other card")
    if args.input_prompt == "nothing":
        print("ffmpeg: unknown codec", file=sys.stderr)
        return
    if args.input_prompt == "broken":
        Path(args.save_file).write_bytes(b"no video at all")
        return
    if args.input_prompt == "empty":
        write_video(args.save_file, Image.open(args.cond_image), 0)
        return
    with wave.open(args.audio_path) as sound:
        seconds = sound.getnframes() / sound.getframerate()
    for chunk in range(3):
        print(f"INFO Generate video chunk-{chunk} done, cost time: 0.01s", file=sys.stderr)
        time.sleep({"hang": 1000, "slow": 0.3}.get(args.input_prompt, 0))
    write_video(args.save_file, Image.open(args.cond_image).convert("RGB"), seconds)


if __name__ == "__main__":
    main()
