// Device guard, streams and events. Everything runs at once; only errors are late.
#pragma once
#include "state.h"

namespace emulator {
struct Mark {  // an event: when it was recorded, in ms
  double at;
};
inline std::atomic<int64_t> next_stream{1};
inline thread_local std::map<int, int64_t> stream_of;  // by device; 0 is the default stream

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static int index(Device device) { return device.index() < 0 ? current : device.index(); }
  static c10::Stream stream(int device, int64_t id) {
    return c10::Stream(c10::Stream::UNSAFE, Device(NPU, static_cast<DeviceIndex>(device)), id);
  }

  c10::DeviceType type() const override { return NPU; }
  Device getDevice() const override { return Device(NPU, current); }
  void setDevice(Device device) const override {
    check_index(device.index());
    current = device.index();
  }
  void uncheckedSetDevice(Device device) const noexcept override { current = device.index(); }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  DeviceIndex deviceCount() const noexcept override { return static_cast<DeviceIndex>(cards.size()); }

  c10::Stream getStream(Device device) const override { return stream(index(device), stream_of[index(device)]); }
  c10::Stream getDefaultStream(Device device) const override { return stream(index(device), 0); }
  c10::Stream getNewStream(Device device, int) const override { return stream(index(device), next_stream++); }
  c10::Stream getStreamFromGlobalPool(Device device, bool) const override {
    return stream(index(device), next_stream++);
  }
  c10::Stream exchangeStream(c10::Stream wanted) const override {
    const auto before = getStream(wanted.device());
    stream_of[wanted.device_index()] = wanted.id();
    return before;
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream& one) const override { raise_deferred(one.device_index()); }
  void synchronizeDevice(DeviceIndex device) const override { raise_deferred(device < 0 ? current : device); }

  void record(void** event, const c10::Stream&, DeviceIndex, c10::EventFlag) const override {
    if (!*event) *event = new Mark;
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    static_cast<Mark*>(*event)->at = std::chrono::duration<double, std::milli>(now).count();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override { raise_deferred(current); }
  void destroyEvent(void* event, DeviceIndex) const noexcept override { delete static_cast<Mark*>(event); }
  double elapsedTime(void* first, void* second, DeviceIndex) const override {
    TORCH_CHECK(first && second, "Both events must be recorded before calculating elapsed time.");
    return static_cast<Mark*>(second)->at - static_cast<Mark*>(first)->at;
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)
}  // namespace emulator
