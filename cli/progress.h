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
  void update(long done, long total);

 private:
  std::string label_;
  std::string unit_;
  bool shown_;
  bool drawn_ = false;
};

}  // namespace tessera::cli
