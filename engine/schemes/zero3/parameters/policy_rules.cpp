// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/parameters/policy_rules.h"

namespace tessera {

PolicyRules rules_of(Zero3Policy policy) {
  if (policy == Zero3Policy::strict) {
    return {.packs_while_reducing = true,
            .follows_what_is_trained = true,
            .pipelines_as_far_as_buffers_reach = true};
  }
  return {.finds_needs_as_they_happen = true,
          .reads_whatever_is_there = true,
          .host_waits_for_copies = true,
          .host_waits_for_reads = true,
          .keeps_swap_buffers = true,
          .waits_where_gathers_run = true,
          .frees_after_reducing = policy == Zero3Policy::compatible_0_19};
}

}  // namespace tessera
