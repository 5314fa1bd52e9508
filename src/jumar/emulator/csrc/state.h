// What the emulated devices are: how many, how much memory, which errors wait to be told.
#pragma once
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <pthread.h>
#include <torch/library.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

namespace emulator {
using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
constexpr auto NPU = c10::DeviceType::PrivateUse1;

struct Card {
  int64_t total = 0;
  bool bf16 = true;
  int64_t allocated = 0, reserved = 0, peak = 0, peak_reserved = 0;
  int64_t allocations = 0, frees = 0, ooms = 0;
};

inline std::mutex mu;  // guards everything below that is not atomic
inline std::vector<Card> cards;
inline thread_local DeviceIndex current = 0;
inline std::map<int, std::deque<std::string>> deferred;
inline std::atomic<int> deferred_count{0};

// A process may not fork once it has used a device: the driver's handles do not survive it.
inline std::atomic<bool> touched{false}, bad_fork{false};

inline void touch() {
  TORCH_CHECK(!bad_fork.load(),
      "Cannot re-initialize NPU in forked subprocess. To use NPU with multiprocessing, you must use "
      "the 'spawn' start method");
  touched = true;
}

inline void check_index(int64_t index) {
  TORCH_CHECK(index >= 0 && index < static_cast<int64_t>(cards.size()),
      "exchangeDevice:emulated NPU function error: aclrtSetDevice, error code is 107001\n[ERROR] ERR00100 PTA "
      "call acl api failed\n[Error]: The invalid device ID. Check whether the device ID is valid: npu:", index,
      " of ", cards.size());
}

inline int index_of(std::optional<Device> device) {
  const int index = device && device->has_index() ? device->index() : current;
  check_index(index);
  return index;
}

// An asynchronous error is told by the next thing that waits for the device, not by the operator that failed.
inline void raise_deferred(int device) {
  if (deferred_count.load() == 0) return;
  std::string text;
  {
    std::lock_guard<std::mutex> lock(mu);
    auto& queue = deferred[device];
    if (queue.empty()) return;
    text = queue.front();
    queue.pop_front();
    deferred_count--;
  }
  TORCH_CHECK(false, text);
}

struct OnDevice {  // allocate() takes the current device
  DeviceIndex before;
  explicit OnDevice(int device) : before(current) { current = static_cast<DeviceIndex>(device); }
  ~OnDevice() { current = before; }
};
}  // namespace emulator
