// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/compared_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

namespace tessera::analysis {
namespace {

constexpr std::size_t comparison_bytes_max = 64 << 20;

// "" if it is gone.
std::string found_trace(const std::string& name, const std::filesystem::path& comparison) {
  std::error_code none;
  if (std::filesystem::exists(name, none)) return name;
  const auto beside = comparison.parent_path() / std::filesystem::path(name).filename();
  return std::filesystem::exists(beside, none) ? beside.string() : "";
}

}  // namespace

Result<std::optional<ComparedFiles>> read_compared_files(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (file.get() != '{') return std::optional<ComparedFiles>();
  std::string text(comparison_bytes_max, '\0');
  text[0] = '{';
  file.read(text.data() + 1, static_cast<std::streamsize>(text.size() - 1));
  if (file.bad()) return Status(Code::io_error, fmt::format("\"{}\" cannot be read.", path));
  text.resize(1 + static_cast<std::size_t>(file.gcount()));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto name = [&](const char* key) -> std::string {
    const auto at = json.is_object() ? json.find(key) : json.end();
    return at != json.end() && at->is_string() ? at->get<std::string>() : "";
  };
  ComparedFiles files{name("trace_a"), name("trace_b")};
  if (files.a.empty() || files.b.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("\"{}\" is neither a trace nor what `tessera compare A B --json` "
                              "writes.",
                              path));
  }
  for (std::string* const trace : {&files.a, &files.b}) {
    const std::string found = found_trace(*trace, path);
    if (found.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("\"{}\" compares \"{}\", which is gone: put it beside the "
                                "comparison, or compare again.",
                                path, *trace));
    }
    *trace = found;
  }
  return std::optional(std::move(files));
}

}  // namespace tessera::analysis
