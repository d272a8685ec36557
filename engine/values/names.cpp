// SPDX-License-Identifier: Apache-2.0
// The words for enumerators, in one place: the trace, the CLI and the inspector all use these.
#include <array>

#include "tessera/trace.h"

namespace tessera {
namespace {

template <std::size_t N, class E>
std::string_view pick(const std::array<std::string_view, N>& names, E value) {
  const auto i = static_cast<std::size_t>(value);
  return i < N ? names[i] : std::string_view("?");
}

}  // namespace

std::string_view name_of(DType dtype) {
  static constexpr std::array<std::string_view, 7> names = {
      "float32", "bfloat16", "float16", "float64", "int32", "int64", "uint8"};
  return pick(names, dtype);
}

std::string_view name_of(OpKind kind) {
  static constexpr std::array<std::string_view, 10> names = {
      "all_gather", "reduce_scatter", "all_reduce", "reduce", "broadcast",
      "copy",       "compute",        "wait",       "mark",   "all_to_all"};
  return pick(names, kind);
}

std::string_view name_of(Phase phase) {
  static constexpr std::array<std::string_view, 5> names = {"", "init", "forward", "backward",
                                                            "optimizer"};
  return pick(names, phase);
}

std::string_view name_of(Reason reason) {
  static constexpr std::array<std::string_view, 18> names = {"",
                                                             "needed",
                                                             "forward_prefetch",
                                                             "backward_prefetch",
                                                             "copy_in",
                                                             "copy_out",
                                                             "reduce_gradients",
                                                             "accumulate",
                                                             "recompute",
                                                             "step",
                                                             "free_memory",
                                                             "order",
                                                             "divide",
                                                             "offload",
                                                             "limit",
                                                             "summon",
                                                             "clip",
                                                             "unscale"};
  return pick(names, reason);
}

std::string_view name_of(MemoryClass memory_class) {
  static constexpr std::array<std::string_view, memory_class_count> names = {
      "sharded parameters",
      "unsharded parameters",
      "sharded gradients",
      "unsharded gradients",
      "optimizer state",
      "activations",
      "temporary",
      "all-gather buffers",
      "reduce buffers",
      "inputs",
      "buffers",
      "communication library",
      "pinned host",
      "NVMe staging",
      "reserved, unused",
      "not known"};
  return pick(names, memory_class);
}

}  // namespace tessera
