// SPDX-License-Identifier: Apache-2.0
// A progress line on stderr, only where somebody watches: nothing in pipes and logs.
#pragma once

#include <string>

namespace tessera::cli {

class Progress {
 public:
  /// `label` names the work, `unit` what is counted: "simulating", "steps".
  Progress(std::string label, std::string unit, bool quiet);
  ~Progress();
  /// `note` stands behind the numbers.
  void update(long done, long total, const std::string& note = "");
  /// Takes the line away, before others are printed.
  void clear();

 private:
  std::string label_;
  std::string unit_;
  bool shown_;
  bool drawn_ = false;
};

}  // namespace tessera::cli
