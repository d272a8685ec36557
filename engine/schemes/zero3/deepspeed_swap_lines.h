// SPDX-License-Identifier: Apache-2.0
// The part of DeepSpeed's notation that is about parameters on NVMe: calls of its swapper and of
// its asynchronous I/O (partitioned_param_swapper.py).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/op.h"

namespace tessera {

class DeepSpeedSwapLines {
 public:
  /// `ids`: of the files, by parameter.
  explicit DeepSpeedSwapLines(std::map<std::string, std::size_t> ids) : ids_(std::move(ids)) {}

  /// Whether the mark is one of NVMe's.
  static bool shows(const Mark& mark);
  /// Adds the lines that `mark` completes. REQUIRES: shows(mark).
  void note(const Mark& mark, const std::string& parameter, std::vector<std::string>& lines);
  /// A call whose parameters were being named.
  void end_call(std::vector<std::string>& lines);

 private:
  struct Read {
    std::string parameter;
    std::int32_t numel = 0;
  };

  std::string call(const char* name, const std::vector<std::string>& parameters,
                   const char* async) const;

  std::map<std::string, std::size_t> ids_;
  bool open_ = false;  // a swap_in
  bool async_ = false;
  std::vector<Read> reads_;
  std::int32_t free_ = 0;
  std::vector<std::string> flying_;
};

/// As Python prints a list of strings.
std::string quoted_list(const std::vector<std::string>& names);

}  // namespace tessera
