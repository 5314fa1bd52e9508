"""Devices: which there are, which one a request gets, how much memory it used."""

from jumar.devices.base import Accelerator, Device, Placement
from jumar.devices.remedy import remedy
from jumar.devices.select import accelerators, may_be_accelerator, place

__all__ = [
    "Accelerator",
    "Device",
    "Placement",
    "accelerators",
    "may_be_accelerator",
    "place",
    "remedy",
]
