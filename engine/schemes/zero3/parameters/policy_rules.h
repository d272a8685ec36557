// SPDX-License-Identifier: Apache-2.0
// The differences of strict and compatible beyond what is gathered when: questions that gathers,
// buckets and swappers ask.
//
// The idea: whoever asks names what it wants to know and not who is asked, so a third policy is a
// third row here. False is what a plan does, true what DeepSpeed does, unless said otherwise.
#pragma once

#include "tessera/zero3.h"

namespace tessera {

struct PolicyRules {
  /// Reads of other modules' parameters become needs when they happen; a plan has them from the
  /// start, or it would gather them too late.
  bool finds_needs_as_they_happen = false;
  /// Work may read whatever is gathered. A plan refuses what its module did not ask for, which may
  /// be gone the next time.
  bool reads_whatever_is_there = false;
  /// param.ds_tensor.to(device) of DeepSpeed is a copy that the host waits for.
  bool host_waits_for_copies = false;
  /// The host waits for all reads from NVMe before a gather; otherwise the gather's stream waits
  /// for its own.
  bool host_waits_for_reads = false;
  /// A buffer that was read into is taken until its parameter is freed; otherwise until its copy to
  /// the device is queued.
  bool keeps_swap_buffers = false;
  /// The stream of gathers waits for every gather, also for those with nothing left to split.
  bool waits_where_gathers_run = false;
  /// strict: the next bucket is packed while one is reduced, and its result is looked at later.
  bool packs_while_reducing = false;
  /// 0.19: what backward left gathered is freed behind the last reduction, otherwise before it.
  bool frees_after_reducing = false;
  /// strict: another set of trained parameters may be known from the next pass on.
  bool follows_what_is_trained = false;
  /// strict: what cannot be pipelined for want of swap buffers is done one after the other, with a
  /// warning; otherwise it is refused.
  bool pipelines_as_far_as_buffers_reach = false;
};

PolicyRules rules_of(Zero3Policy policy);

}  // namespace tessera
