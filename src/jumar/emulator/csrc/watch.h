// Who looks at operators: a trace of names, and rules (faults) that Python decides on.
#pragma once
#include "state.h"

namespace emulator {
inline std::atomic<bool> tracing{false};
inline std::vector<std::string> trace;
inline std::atomic<bool> watching{false};
inline std::unordered_set<std::string> watched;  // "aten::mm"; "*" for all
inline thread_local bool deciding = false;       // a rule that computes is not watched itself

inline std::unordered_set<std::string> native;  // what the real torch_npu has kernels for; empty: not asked

inline std::string base_of(const std::string& name) { return name.substr(0, name.find('.')); }

// torch_npu runs an operator without NPU kernel on the CPU, and says so once.
inline void caution(const std::string& name) {
  if (native.empty() || name.compare(0, 6, "aten::") != 0 || native.count(base_of(name))) return;
  static std::unordered_set<std::string> told;
  {
    std::lock_guard<std::mutex> lock(mu);
    if (!told.insert(name).second) return;
  }
  TORCH_WARN("CAUTION: The operator '", name, "' is not currently supported on the NPU backend and will fall back to "
      "run on the CPU. This may have performance implications. (emulated)");
}

inline void note(const std::string& name) {
  if (!tracing.load()) return;
  std::lock_guard<std::mutex> lock(mu);
  trace.push_back(name);
}

inline bool is_watched(const std::string& name) {
  if (!watching.load() || deciding) return false;
  std::lock_guard<std::mutex> lock(mu);
  return watched.count("*") || watched.count(base_of(name));
}

struct Deciding {
  Deciding() { deciding = true; }
  ~Deciding() { deciding = false; }
};

// Ask the rules before the kernel runs. They may raise, wait or end the process; true: they also want the outputs.
inline bool before(const std::string& name, int64_t device, const std::vector<Tensor>& inputs) {
  if (!is_watched(name)) return false;
  static auto ask = c10::Dispatcher::singleton().findSchemaOrThrow("jumar_emulator::before", "")
                        .typed<bool(c10::string_view, int64_t, at::TensorList)>();
  Deciding guard;
  return ask.call(name, device, inputs);
}

// `outputs` are CPU aliases: what is written into them is what the device answers.
inline void after(const std::vector<Tensor>& outputs) {
  static auto tell = c10::Dispatcher::singleton().findSchemaOrThrow("jumar_emulator::after", "")
                         .typed<void(at::TensorList)>();
  Deciding guard;
  tell.call(outputs);
}
}  // namespace emulator
