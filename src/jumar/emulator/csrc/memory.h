// Device memory is host memory that is counted; pinned memory is host memory that is remembered.
#pragma once
#include "state.h"

namespace emulator {
constexpr int64_t SEGMENT = 2 << 20;  // what the caching allocator asks the driver for
constexpr int64_t BLOCK = 512;        // what it rounds a tensor to

inline int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

inline std::string in_words(int64_t bytes) {
  static const std::pair<double, const char*> UNITS[] = {{1073741824., "GiB"}, {1048576., "MiB"}, {1024., "KiB"}};
  char text[64];
  for (auto& [size, name] : UNITS) {
    if (static_cast<double>(bytes) < size) continue;
    snprintf(text, sizeof text, "%.2f %s", static_cast<double>(bytes) / size, name);
    return text;
  }
  return std::to_string(bytes) + " bytes";
}

// torch_npu's own wording: log classifiers and users search for it.
inline std::string oom_text(int device, int64_t wanted) {
  const Card& card = cards[device];
  const int64_t free = std::max<int64_t>(card.total - card.reserved, 0);
  return "NPU out of memory. Tried to allocate " + in_words(wanted) + " (NPU " + std::to_string(device) + "; " +
      in_words(card.total) + " total capacity; " + in_words(card.allocated) + " already allocated; " +
      in_words(card.allocated) + " current active; " + in_words(free) + " free; " + in_words(card.reserved) +
      " reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to "
      "avoid fragmentation.";
}

inline void charge(int device, int64_t bytes) {
  touch();
  std::lock_guard<std::mutex> lock(mu);
  Card& card = cards.at(device);
  if (card.allocated + bytes > card.total) {
    card.ooms++;
    TORCH_CHECK_WITH(OutOfMemoryError, false, oom_text(device, bytes));
  }
  card.allocated += bytes;
  card.allocations++;
  card.peak = std::max(card.peak, card.allocated);
  if (card.allocated > card.reserved) card.reserved = std::min(round_up(card.allocated, SEGMENT), card.total);
  card.peak_reserved = std::max(card.peak_reserved, card.reserved);
}

struct Block {  // owns memory of its own, or keeps an adopted CPU storage alive
  int device;
  int64_t bytes;
  void* raw = nullptr;
  c10::Storage adopted{};
};

inline void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  {
    std::lock_guard<std::mutex> lock(mu);
    cards[block->device].allocated -= block->bytes;
    cards[block->device].frees++;
  }
  free(block->raw);
  delete block;
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr on(int64_t bytes, int device) {
    const Device where(NPU, static_cast<DeviceIndex>(device));
    if (bytes == 0) return {nullptr, where};
    const int64_t size = round_up(bytes, BLOCK);
    charge(device, size);
    auto* block = new Block{device, size, aligned_alloc(64, size)};
    return {block->raw, block, &free_block, where};
  }
  c10::DataPtr allocate(size_t bytes) override { return on(static_cast<int64_t>(bytes), current); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { memcpy(to, from, bytes); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    std::lock_guard<std::mutex> lock(mu);
    for (auto& card : cards) card.reserved = std::min(round_up(card.allocated, SEGMENT), card.total);
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    std::lock_guard<std::mutex> lock(mu);
    const Card& card = cards.at(index);
    stats.allocated_bytes[0].current = card.allocated, stats.allocated_bytes[0].peak = card.peak;
    stats.reserved_bytes[0].current = card.reserved, stats.reserved_bytes[0].peak = card.peak_reserved;
    stats.num_ooms = card.ooms;
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex index) override {
    std::lock_guard<std::mutex> lock(mu);
    Card& card = cards.at(index);
    card.peak = card.allocated, card.peak_reserved = card.reserved;
  }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex index) override {
    std::lock_guard<std::mutex> lock(mu);
    return {cards.at(index).total - cards.at(index).reserved, cards.at(index).total};
  }
};

inline Allocator* allocator() {
  static auto* one = new Allocator;
  return one;
}
REGISTER_ALLOCATOR(NPU, allocator())

struct Pinned final : c10::Allocator {
  static std::map<char*, size_t>& live() {
    static auto* blocks = new std::map<char*, size_t>;
    return *blocks;
  }
  static void release(void* data) {
    {
      std::lock_guard<std::mutex> lock(mu);
      live().erase(static_cast<char*>(data));
    }
    free(data);
  }
  static bool holds(const void* data) {
    std::lock_guard<std::mutex> lock(mu);
    auto* at = static_cast<char*>(const_cast<void*>(data));
    auto next = live().upper_bound(at);
    return next != live().begin() && (--next, at < next->first + next->second);
  }
  c10::DataPtr allocate(size_t bytes) override {
    void* data = aligned_alloc(64, round_up(static_cast<int64_t>(bytes) + 1, 64));
    std::lock_guard<std::mutex> lock(mu);
    live()[static_cast<char*>(data)] = bytes + 1;
    return {data, data, &release, Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override { memcpy(to, from, bytes); }
};

inline Pinned* pinned() {
  static auto* one = new Pinned;
  return one;
}
}  // namespace emulator
