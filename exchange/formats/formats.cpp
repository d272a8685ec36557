// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exchange/formats/chakra.h"
#include "exchange/formats/flight_recorder.h"
#include "exchange/formats/kineto.h"
#include "exchange/formats/memory_snapshot.h"
#include "exchange/formats/nccl_inspector.h"
#include "exchange/formats/nsys.h"
#include "exchange/formats/rocpd.h"
#include "exchange/import/format.h"
#include "tessera/exchange/import.h"

namespace tessera::exchange {
namespace {

// Databases first, as their tables are names that nobody else uses; then by the first bytes; last
// what is recognised by keys somewhere in the first part.
constexpr Format all_formats[] = {
    {"Nsight Systems", is_nsys, read_nsys, nullptr},
    {"ROCm rpd", is_rpd, read_rpd, nullptr},
    {"ROCm rocpd", is_rocpd, read_rocpd, nullptr},
    {"PyTorch memory snapshot", is_memory_snapshot, read_memory_snapshot, nullptr},
    {"PyTorch Flight Recorder", is_flight_recorder, read_flight_recorder, conclude_flight_recorder},
    {"NCCL Inspector", is_nccl_inspector, read_nccl_inspector, nullptr},
    {"PyTorch execution trace", is_execution_trace, read_execution_trace, nullptr},
    {"Chakra JSON", is_chakra_json, read_chakra_json, nullptr},
    {"PyTorch profiler", is_kineto, read_kineto, nullptr},
    {"Chakra", is_chakra, read_chakra, nullptr},
};

}  // namespace

std::span<const Format> formats() { return all_formats; }

std::vector<std::string> import_formats() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.emplace_back(format.name);
  return names;
}

Result<const Format*> format_of(const SourceFile& source) {
  for (const Format& format : formats()) {
    if (format.recognises(source)) return &format;
  }
  return source.error(Code::invalid_argument,
                      fmt::format("it is of no format that can be imported ({})",
                                  fmt::join(import_formats(), ", ")));
}

}  // namespace tessera::exchange
