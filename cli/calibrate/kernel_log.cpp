// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/kernel_log.h"

#include <fmt/format.h>

#include <charconv>
#include <set>

namespace tessera::cli {
namespace {

constexpr std::string_view first_line = "# tessera kernel sweep";
constexpr std::string_view header =
    "kernel,dtype,pass,m,n,k,batch,length,heads,key_value_heads,head_dim,us";
constexpr std::size_t columns = 12;

std::vector<std::string_view> split(std::string_view line, char separator) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t end = line.find(separator);
    words.push_back(line.substr(0, end));
    if (end == line.npos) return words;
    line.remove_prefix(end + 1);
  }
}

template <class T>
bool number_in(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && value > 0;
}

bool read_row(const std::vector<std::string_view>& words, sim::MeasuredKernel& kernel) {
  if (words.size() != columns || !number_in(words[11], kernel.us)) return false;
  if (words[0] == "gemm") {
    MatmulShape& shape = kernel.matmul;
    return number_in(words[3], shape.m) && number_in(words[4], shape.n) &&
           number_in(words[5], shape.k);
  }
  AttentionShape& shape = kernel.attention;
  shape.backward = words[2] == "bwd";
  return words[0] == "attention" && number_in(words[6], shape.batch) &&
         number_in(words[7], shape.sequence) && number_in(words[8], shape.heads) &&
         number_in(words[9], shape.key_value_heads) && number_in(words[10], shape.head_dim);
}

}  // namespace

bool is_kernel_log(std::string_view text) { return text.starts_with(first_line); }

Result<KernelLog> parse_kernel_log(std::string_view text, const std::string& source) {
  KernelLog log;
  std::set<std::string_view> lines;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const auto words = split(line, line.starts_with("#") ? ' ' : ',');
    if (line.empty() || line == header) continue;
    if (line.starts_with("#")) {
      if (words.size() == 3 && words[1] == "multiprocessors") {
        number_in(words[2], log.multiprocessors);
      } else if (words.size() == 3 && words[1] == "attention") {
        log.attention = words[2];
      }
      continue;
    }
    sim::MeasuredKernel kernel;
    if (!read_row(words, kernel)) {
      return Status(Code::invalid_argument,
                    fmt::format("{}, line {}: is no row of {}", source, number, header));
    }
    if (lines.insert(line).second) {
      log.kernels.push_back(kernel);
    } else {
      ++log.repeated;
    }
  }
  if (!log.kernels.empty()) return log;
  return Status(Code::invalid_argument, fmt::format("{}: has no kernels", source));
}

}  // namespace tessera::cli
