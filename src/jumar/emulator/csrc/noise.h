// Another device never sums in the CPU's order. Two legal differences, both drawn from a seed:
//   split     a matrix product or convolution is summed in two parts, cut at a drawn place;
//   faithful  a reduction is computed in a wider type and rounded to either neighbour of the exact value,
//             so a result that the type can hold exactly stays exact.
#pragma once
#include "state.h"

namespace emulator {
struct Noise {
  std::atomic<bool> on{false};
  std::atomic<bool> repeatable{false};
  std::atomic<uint64_t> seed{0}, calls{0};
};
inline Noise noise;

inline uint64_t mix(uint64_t x) {  // splitmix64: Steele, Lea, Flood, OOPSLA 2014
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// One number per call; with `repeatable` (or torch's own deterministic mode) per operator and shape.
inline uint64_t draw(const std::string& name, c10::IntArrayRef sizes) {
  if (!noise.repeatable.load() && !at::globalContext().deterministicAlgorithms())
    return mix(noise.seed.load() ^ mix(noise.calls++));
  uint64_t key = noise.seed.load() ^ std::hash<std::string>{}(name);
  for (auto size : sizes) key = mix(key ^ static_cast<uint64_t>(size));
  return mix(key);
}

template <class T, class Bits>
T faithful_one(double exact, bool other) {
  const T near = static_cast<T>(static_cast<float>(exact));
  const double got = static_cast<float>(near);
  if (!other || got == exact || got == 0 || !std::isfinite(got)) return near;
  const Bits step = std::abs(exact) > std::abs(got) ? 1 : -1;
  const T next = std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(near) + step));
  return std::isfinite(static_cast<float>(next)) ? next : near;
}

template <class T, class Bits, class Wide>
void faithful_all(const Tensor& wide, Tensor& narrow, uint64_t key) {
  const Wide* from = wide.const_data_ptr<Wide>();
  T* to = narrow.mutable_data_ptr<T>();
  for (int64_t i = 0; i < wide.numel(); i++)
    to[i] = faithful_one<T, Bits>(static_cast<double>(from[i]), mix(key + static_cast<uint64_t>(i)) & 1);
}

inline std::optional<at::ScalarType> wider(at::ScalarType type) {
  if (type == at::kFloat) return at::kDouble;
  if (type == at::kHalf || type == at::kBFloat16) return at::kFloat;
  return std::nullopt;
}

inline Tensor faithful(const Tensor& wide, at::ScalarType type, uint64_t key) {
  if (wider(type) != wide.scalar_type()) return wide.to(type);
  const Tensor dense = wide.contiguous();
  Tensor narrow = at::empty(dense.sizes(), dense.options().dtype(type));
  if (type == at::kFloat) faithful_all<float, int32_t, double>(dense, narrow, key);
  if (type == at::kHalf) faithful_all<c10::Half, int16_t, float>(dense, narrow, key);
  if (type == at::kBFloat16) faithful_all<c10::BFloat16, int16_t, float>(dense, narrow, key);
  return narrow;
}

// ---- split: c + a @ b along the summed dimension -----------------------------------------------------------------
inline int64_t cut(uint64_t key, int64_t length) { return 1 + static_cast<int64_t>(key % (length - 1)); }

struct Product {  // how one operator multiplies, and how it adds a second product to a first
  const char* name;
  int64_t summed;  // dimension of the left factor that is summed, and of the right one
  int64_t summed_right;
  Tensor (*add)(const Tensor& base, const Tensor& left, const Tensor& right, const at::Scalar& beta,
      const at::Scalar& alpha);
};
inline const Product PRODUCTS[] = {
    {"aten::mm", 1, 0, &at::addmm}, {"aten::addmm", 1, 0, &at::addmm},
    {"aten::bmm", 2, 1, &at::baddbmm}, {"aten::baddbmm", 2, 1, &at::baddbmm}};

inline bool product(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  if (!schema.overload_name().empty()) return false;
  for (const auto& one : PRODUCTS) {
    if (schema.name() != one.name) continue;
    const bool added = schema.arguments().size() == 5;  // base, left, right, beta, alpha
    const auto& args = torch::jit::last(*stack, schema.arguments().size());
    const Tensor left = args[added ? 1 : 0].toTensor(), right = args[added ? 2 : 1].toTensor();
    const auto type = left.scalar_type();
    if (!wider(type) || right.scalar_type() != type || left.size(one.summed) < 2) return false;
    const bool half = type != at::kFloat;  // the cube unit sums halves in float
    const Tensor a = half ? left.to(at::kFloat) : left, b = half ? right.to(at::kFloat) : right;
    const uint64_t key = draw(schema.name(), left.sizes());
    const int64_t length = left.size(one.summed), at = cut(key, length);
    const auto rest = length - at;
    const at::Scalar alpha = added ? args[4].toScalar() : at::Scalar(1);
    Tensor sum;
    if (added) {
      const Tensor base = half ? args[0].toTensor().to(at::kFloat) : args[0].toTensor();
      sum = one.add(base, a.narrow(one.summed, 0, at), b.narrow(one.summed_right, 0, at), args[3].toScalar(), alpha);
    } else {
      sum = at::matmul(a.narrow(one.summed, 0, at), b.narrow(one.summed_right, 0, at));
    }
    sum = one.add(sum, a.narrow(one.summed, at, rest), b.narrow(one.summed_right, at, rest), 1, alpha);
    torch::jit::drop(*stack, schema.arguments().size());
    stack->emplace_back(half ? faithful(sum, type, key) : sum);
    return true;
  }
  return false;
}

// ---- faithful: reductions in a wider type ------------------------------------------------------------------------
inline const std::unordered_set<std::string> REDUCTIONS = {
    "aten::_softmax", "aten::_log_softmax", "aten::sum.dim_IntList", "aten::mean", "aten::mean.dim",
    "aten::var.correction", "aten::std.correction", "aten::linalg_vector_norm", "aten::logsumexp", "aten::cumsum",
    "aten::prod", "aten::native_layer_norm", "aten::native_group_norm", "aten::native_batch_norm"};

inline bool reduction(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  const std::string name = c10::toString(op.operator_name());
  if (!REDUCTIONS.count(name)) return false;
  const size_t count = schema.arguments().size(), base = stack->size() - count;
  std::optional<at::ScalarType> type;
  for (size_t i = 0; i < count; i++) {
    const auto& value = (*stack)[base + i];
    if (value.isTensor() && value.toTensor().defined()) {
      if (type && *type != value.toTensor().scalar_type()) return false;
      type = value.toTensor().scalar_type();
    } else if (schema.arguments()[i].name() == "dtype" && !value.isNone()) {
      return false;
    } else if (schema.arguments()[i].name() == "half_to_float" && value.toBool()) {
      return false;
    }
  }
  if (!type || !wider(*type)) return false;
  // A running statistic is written in place: batch norm in training keeps the CPU's own sums.
  if (name == "aten::native_batch_norm" && (*stack)[base + 5].toBool()) return false;
  const uint64_t key = draw(name, (*stack)[base].toTensor().sizes());
  for (size_t i = 0; i < count; i++) {
    auto& value = (*stack)[base + i];
    if (value.isTensor() && value.toTensor().defined()) value = value.toTensor().to(*wider(*type));
  }
  op.callBoxed(stack);
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); i++) {
    auto& value = (*stack)[i];
    if (value.isTensor() && value.toTensor().defined()) value = faithful(value.toTensor(), *type, mix(key + i));
  }
  return true;
}

inline bool with_noise(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  return noise.on.load() && (product(op, stack) || reduction(op, stack));
}
}  // namespace emulator
