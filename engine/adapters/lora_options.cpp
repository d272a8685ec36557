// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <set>

#include "tessera/lora.h"

namespace tessera {
namespace {

template <class T>
bool is_number(std::string_view text, T& value) {
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  return wrong == std::errc{} && end == text.data() + text.size();
}

Status wrong_part(std::string_view part) {
  return Status(
      Code::invalid_argument,
      fmt::format("lora: '{}' is none of rank=8, alpha=32, target=q_proj,v_proj, dropout=0.1 and "
                  "base=nf4",
                  part));
}

}  // namespace

Result<LoraOptions> parse_lora(std::string_view text) {
  LoraOptions options;
  std::set<std::string_view> given;
  const auto again = [&](std::string_view what) {
    if (given.insert(what).second) return Status();
    return Status(Code::invalid_argument, fmt::format("lora: {} is given twice", what));
  };
  bool targets = false;  // are being listed
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t at = part.find('=');
    const std::string_view key = at == part.npos ? std::string_view() : part.substr(0, at);
    const std::string_view value = at == part.npos ? part : part.substr(at + 1);
    if (!key.empty()) TESSERA_TRY(again(key == "r" ? "rank" : key));
    if (key == "target") {
      targets = true;
      options.targets.clear();
    } else if (key == "rank" || key == "r") {
      if (!is_number(value, options.rank)) return wrong_part(part);
      targets = false;
      continue;
    } else if (key == "alpha") {
      if (!is_number(value, options.alpha)) return wrong_part(part);
      targets = false;
      continue;
    } else if (key == "dropout") {
      const bool share =
          is_number(value, options.dropout) && options.dropout >= 0 && options.dropout < 1;
      if (!share) return wrong_part(part);
      targets = false;
      continue;
    } else if (key == "base") {
      if (value != "nf4") return wrong_part(part);
      options.packed = true;
      targets = false;
      continue;
    }
    if (!targets || value.empty() || (at != part.npos && key != "target")) return wrong_part(part);
    TESSERA_TRY(again(value));
    options.targets.emplace_back(value);
  }
  constexpr double least = 1e-30, most = 1e30;  // which float32 can hold
  if (options.rank >= 1 && options.rank <= 65536 && options.alpha >= least &&
      options.alpha <= most) {
    return options;
  }
  return Status(Code::invalid_argument,
                fmt::format("lora: rank {} must be 1 to 65536, alpha {} 1e-30 to 1e30",
                            options.rank, options.alpha));
}

std::string to_text(const LoraOptions& options) {
  const std::string dropout =
      options.dropout > 0 ? fmt::format(",dropout={}", options.dropout) : "";
  return fmt::format("rank={},alpha={},target={}{}{}", options.rank, options.alpha,
                     fmt::join(options.targets, ","), dropout, options.packed ? ",base=nf4" : "");
}

}  // namespace tessera
