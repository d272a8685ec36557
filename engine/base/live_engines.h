// SPDX-License-Identifier: Apache-2.0
// Which models are driven by an engine on which runtime: two engines on one would both believe that
// the parameters are theirs.
#pragma once

#include "tessera/status.h"

namespace tessera {

class Runtime;
struct Model;

/// Lives as long as an engine of `model` on `runtime`.
class LiveEngine {
 public:
  LiveEngine(const Runtime& runtime, const Model& model);
  ~LiveEngine();
  LiveEngine(const LiveEngine&) = delete;
  LiveEngine& operator=(const LiveEngine&) = delete;

  /// Fails: invalid_argument.
  static Status expect_none(const Runtime& runtime, const Model& model);

 private:
  const Runtime& runtime_;
  const Model& model_;
};

}  // namespace tessera
