// Graph capture: operators of one thread are kept with their arguments, and run again on the same memory.
#pragma once
#include "state.h"

namespace emulator {
struct Graph {
  std::vector<std::function<void()>> steps;
};
inline std::map<int64_t, Graph> graphs;
inline std::atomic<int64_t> next_graph{1};
inline thread_local int64_t capturing = 0;

// Keep a step while this thread captures. `redo` is told to run under the same device.
inline void keep(int device, std::function<void()> redo) {
  if (!capturing) return;
  std::lock_guard<std::mutex> lock(mu);
  graphs[capturing].steps.emplace_back([device, redo = std::move(redo)] {
    OnDevice on(device);
    at::AutoDispatchBelowADInplaceOrView below;
    redo();
  });
}

inline void refuse_in_capture(const char* what) {
  TORCH_CHECK(!capturing, what, " is not permitted while a stream is capturing (emulated NPUGraph)");
}

inline void replay(int64_t graph) {
  std::vector<std::function<void()>> steps;
  {
    std::lock_guard<std::mutex> lock(mu);
    const auto found = graphs.find(graph);
    TORCH_CHECK(found != graphs.end(), "Called NPUGraph::replay without a preceding successful capture.");
    steps = found->second.steps;
  }
  for (auto& step : steps) step();
}
}  // namespace emulator
