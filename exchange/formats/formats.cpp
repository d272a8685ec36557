// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

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

/// What people have, and what to do with it; "": something else.
std::string other_form(const SourceFile& source) {
  const std::string_view head = source.head();
  struct Form {
    std::string_view begin;
    const char* advice;
  };
  using std::string_view_literals::operator""sv;
  static constexpr Form forms[] = {
      {"\3757zXZ"sv, "it is packed by xz: unpack it first (gzip is read as it is)"},
      {"\x28\xB5\x2F\xFD"sv, "it is packed by zstd: unpack it first (gzip is read as it is)"},
      {"PK\x03\x04"sv, "it is a zip archive: unpack it first"},
      {"BZh"sv, "it is packed by bzip2: unpack it first (gzip is read as it is)"},
      {"\xFF\xFE"sv, "it is a text in UTF-16: convert it to UTF-8"},
      {"\xFE\xFF"sv, "it is a text in UTF-16: convert it to UTF-8"}};
  if (source.has_table("span_chunk") && source.has_table("op")) {
    return "it is a trace of Tessera: `tessera inspect`, `report` and `query` open it as it is";
  }
  if (head.empty() && source.tables().empty()) return "it is empty";
  for (const Form& form : forms) {
    if (head.starts_with(form.begin)) return form.advice;
  }
  constexpr std::size_t tar_mark = 257;
  if (head.substr(std::min(head.size(), tar_mark)).starts_with("ustar")) {
    return "it is a tar archive: unpack it first";
  }
  return {};
}

}  // namespace

std::span<const Format> formats() { return all_formats; }

std::vector<std::string> import_formats() {
  std::vector<std::string> names;
  for (const Format& format : formats()) names.emplace_back(format.name);
  return names;
}

Result<const Format*> format_of(const SourceFile& source) {
  const std::string other = other_form(source);
  if (!other.empty()) return source.error(Code::invalid_argument, other);
  for (const Format& format : formats()) {
    if (format.recognises(source)) return &format;
  }
  return source.error(Code::invalid_argument,
                      fmt::format("it is of no format that can be imported ({})",
                                  fmt::join(import_formats(), ", ")));
}

}  // namespace tessera::exchange
