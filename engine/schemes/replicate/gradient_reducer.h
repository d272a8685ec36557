// SPDX-License-Identifier: Apache-2.0
// Join and communication hooks ask this of the engine that `replicate` makes.
#pragma once

#include <memory>
#include <string>

#include "tessera/join.h"

namespace tessera {

class CommHook;

class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  /// As the functions of comm_hook.h and replicate.h.
  virtual Status register_hook(std::shared_ptr<CommHook> hook) = 0;
  virtual Status set_static_graph() = 0;
  /// As Join::enter, Join::step, Join::finish and Join::warning.
  virtual Status enter_join(const JoinOptions& options) = 0;
  virtual Status announce(const RankSet& with_input) = 0;
  virtual Status leave_join() = 0;
  virtual const std::string& join_warning() const = 0;
};

}  // namespace tessera
