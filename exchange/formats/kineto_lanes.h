// SPDX-License-Identifier: Apache-2.0
// Which events of a profile become spans, and in which lanes.
//
// The idea: lanes are named by use, as ids of threads and streams differ between ranks. Where there
// is a device, its kernels are what computes; without one the host's outermost operations are.
#pragma once

#include <vector>

#include "exchange/formats/kineto_context.h"

namespace tessera::exchange {

class KinetoLanes {
 public:
  KinetoLanes(const KinetoFile& file, const KinetoContexts& contexts, ImportedRank& rank,
              ImportedRun& run);

  /// Decides what streams and threads are for. `contexts` are those of the events.
  void choose(const std::vector<KinetoContext>& contexts);

  struct Place {
    std::int32_t lane = -1;  // -1: not shown
    TextId name = 0;
    OpKind kind = OpKind::compute;
    bool collective = false;  // to be looked at as one
  };
  Place place(std::size_t event, const KinetoContext& context);

 private:
  struct Use {  // of a thread or a stream
    std::int64_t kernels = 0, copies = 0, packing = 0, gloo = 0, operations = 0;
    Time busy = 0;
    std::int32_t lane = -1, annotations = -1;
  };

  void choose_streams();
  void choose_threads();
  std::int32_t communication_lane(const KinetoEvent& event);
  /// Nowhere, which is counted.
  Place lost(std::string_view what);
  Place host_place(const KinetoEvent& event, const KinetoContext& context);

  const KinetoFile& file_;
  const KinetoContexts& contexts_;
  ImportedRank& rank_;
  ImportedRun& run_;
  std::vector<Use> uses_;
  bool device_ = false;
  TextId step_name_ = 0;
};

}  // namespace tessera::exchange
