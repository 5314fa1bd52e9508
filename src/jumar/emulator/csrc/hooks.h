// What torch asks a backend for: generators, pinned memory, storage that grows, torch.accelerator.
#pragma once
#include "generator.h"
#include "memory.h"

namespace emulator {
struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return !cards.empty(); }
  bool hasPrimaryContext(DeviceIndex) const override { return touched.load(); }
  DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(cards.size()); }
  DeviceIndex getCurrentDevice() const override { return current; }
  void setCurrentDevice(DeviceIndex device) const override {
    check_index(device);
    current = device;
  }
  DeviceIndex exchangeDevice(DeviceIndex device) const override {
    const auto before = current;
    setCurrentDevice(device);
    return before;
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex device) const override {
    return device < 0 ? current : exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(DeviceIndex device) const override {
    return generators.at(device < 0 ? current : device);
  }
  at::Generator getNewGenerator(DeviceIndex device) const override {
    return at::make_generator<Generator>(device < 0 ? current : device);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned(); }
  bool isPinnedPtr(const void* data) const override { return Pinned::holds(data); }
  Device getDeviceFromPtr(void*) const override { return Device(NPU, current); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    auto grown = allocator()->on(static_cast<int64_t>(bytes), storage.device().index());
    if (bytes && storage.data()) memcpy(grown.get(), storage.data(), std::min<size_t>(bytes, storage.nbytes()));
    auto& one = const_cast<c10::Storage&>(storage);
    one.set_data_ptr_noswap(std::move(grown));
    one.set_nbytes(bytes);
  }
};
}  // namespace emulator
