// Emulated NPUs: torch's PrivateUse1 backend over host memory.
//
// One translation unit (torch's headers cost more to compile than all of this), one part per header. Nothing here
// knows Python: what Python needs is an operator of the namespace jumar_emulator, so the library is built by one
// plain g++ call and loaded with torch.ops.load_library.
#include "guard.h"
#include "hooks.h"
#include "kernels.h"

namespace emulator {
#define BOXED(kernel) torch::CppFunction::makeFromBoxedFunction<&kernel>()

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(BOXED(fallback)); }
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
// Copies of lazily conjugated or negated tensors would call themselves for ever.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("convolution_overrideable", convolution);
  m.impl("record_stream", [](Tensor&, c10::Stream) {});
  for (auto* name : {"as_strided", "view", "_reshape_alias", "view.dtype", "unfold", "view_as_real",
           "view_as_complex", "resize_", "set_.source_Storage_storage_offset", "set_.source_Tensor",
           "set_.source_Storage", "set_"})
    m.impl(name, BOXED(metadata_only));
}

// Operators whose generic kernel would decompose before the fallback sees them, by full name.
inline std::map<std::string, c10::RegistrationHandleRAII> routed;

void route(const std::vector<std::string>& names) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : names) {
    const auto dot = name.find('.');
    const c10::OperatorName op(name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1));
    const auto handle = dispatcher.findSchema(op);
    if (!handle || routed.count(name) || handle->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    routed.emplace(name, dispatcher.registerImpl(op, c10::DispatchKey::PrivateUse1,
        c10::KernelFunction::makeFromBoxedFunction<&fallback>(), std::nullopt, nullptr, "emulated NPU"));
  }
}

void start(const std::vector<int64_t>& totals, bool bf16) {
  {
    std::lock_guard<std::mutex> lock(mu);
    TORCH_CHECK(cards.empty(), "the emulated NPUs are already started");
    for (size_t i = 0; i < totals.size(); i++) {
      cards.push_back(Card{totals[i], bf16});
      generators.push_back(at::make_generator<Generator>(static_cast<DeviceIndex>(i)));
    }
  }
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  pthread_atfork(nullptr, nullptr, [] { bad_fork = touched.load(); });
}

std::vector<int64_t> stats(int64_t index) {
  check_index(index);
  std::lock_guard<std::mutex> lock(mu);
  const Card& card = cards[index];
  return {card.total, card.allocated, card.reserved, card.peak, card.peak_reserved, card.allocations, card.frees,
      card.ooms};
}

TORCH_LIBRARY(jumar_emulator, m) {
  m.def("start", start);
  m.def("route", route);
  m.def("unroute", [](const std::vector<std::string>& names) {
    for (const auto& name : names) routed.erase(name);
  });
  m.def("to_cpu(Tensor tensor) -> Tensor");
  m.def("to_npu(Tensor tensor, int device) -> Tensor");
  m.def("faithful(Tensor wide, ScalarType dtype) -> Tensor");
  m.def("before(str op, int device, Tensor[] inputs) -> bool");
  m.def("after(Tensor[] outputs) -> ()");

  m.def("touch", []() { touch(); });
  m.def("is_touched", []() { return touched.load(); });
  m.def("in_bad_fork", []() { return bad_fork.load(); });
  m.def("current_device", []() -> int64_t { return current; });
  m.def("set_device", [](int64_t index) {
    touch();
    check_index(index);
    current = static_cast<DeviceIndex>(index);
  });

  m.def("stats", stats);
  m.def("set_total", [](int64_t index, int64_t bytes) {
    check_index(index);
    std::lock_guard<std::mutex> lock(mu);
    cards[index].total = bytes;
  });
  m.def("empty_cache", []() { allocator()->emptyCache({0, 0}); });
  m.def("reset_peak", [](int64_t index) {
    check_index(index);
    allocator()->resetPeakStats(static_cast<DeviceIndex>(index));
  });
  m.def("oom_text", [](int64_t index, int64_t bytes) {
    check_index(index);
    std::lock_guard<std::mutex> lock(mu);
    cards[index].ooms++;
    return oom_text(static_cast<int>(index), bytes);
  });

  m.def("default_generator", [](int64_t index) {
    check_index(index);
    return generators[index];
  });

  m.def("defer", [](int64_t index, const std::string& text) {
    check_index(index);
    std::lock_guard<std::mutex> lock(mu);
    deferred[static_cast<int>(index)].push_back(text);
    deferred_count++;
  });
  m.def("synchronize", [](int64_t index) {
    touch();
    check_index(index);
    before("jumar_emulator::synchronize", index, {});
    raise_deferred(static_cast<int>(index));
  });

  m.def("watch", [](const std::vector<std::string>& names) {
    std::lock_guard<std::mutex> lock(mu);
    watched = {names.begin(), names.end()};
    watching = !names.empty();
  });
  m.def("native", [](const std::vector<std::string>& names) { native = {names.begin(), names.end()}; });
  m.def("trace", [](bool on) {
    std::lock_guard<std::mutex> lock(mu);
    std::vector<std::string> seen;
    seen.swap(trace);
    tracing = on;
    return seen;
  });
  m.def("noise", [](bool on, int64_t seed, bool repeatable) {
    noise.on = on;
    noise.repeatable = repeatable;
    noise.seed = static_cast<uint64_t>(seed);
    noise.calls = 0;
  });
}

TORCH_LIBRARY_FRAGMENT(jumar_emulator, m) {  // graph capture
  m.def("capture_begin", []() -> int64_t {
    TORCH_CHECK(!capturing, "this thread captures already");
    return capturing = next_graph++;
  });
  m.def("capture_end", []() { capturing = 0; });
  m.def("is_capturing", []() { return capturing != 0; });
  m.def("replay", replay);
  m.def("forget", [](int64_t graph) {
    Graph dropped;  // dies after the lock: freeing its tensors takes the lock too
    std::lock_guard<std::mutex> lock(mu);
    std::swap(dropped, graphs[graph]);
    graphs.erase(graph);
  });
}

TORCH_LIBRARY_IMPL(jumar_emulator, CompositeExplicitAutograd, m) {
  m.impl("to_cpu", to_cpu);
  m.impl("to_npu", to_npu);
  m.impl("faithful", [](const Tensor& wide, at::ScalarType type) {
    return noise.on.load() ? faithful(wide, type, draw("faithful", wide.sizes())) : wide.to(type);
  });
}
}  // namespace emulator
