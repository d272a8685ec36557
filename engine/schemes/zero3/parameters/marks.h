// SPDX-License-Identifier: Apache-2.0
// The marks of ZeRO-3 beyond those of all schemes. `sharded` and `unsharded` are of one parameter
// here, too.
#pragma once

#include "tessera/op.h"

namespace tessera::marks {

// Visits: the order in which modules need their parameters.
inline constexpr Mark::Kind fetched = "visit {}";  // a module needs its parameters now
inline constexpr Mark::Kind released = "released before visit {}";
inline constexpr Mark::Kind traced = "recorded for visit {}";  // part of the recorded order
inline constexpr Mark::Kind trace_mismatch = "not recorded at visit {}";  // another module runs
/// A pass is over, or (number 1) the next forward begins: a recorded order is complete, an invalid
/// one is forgotten.
inline constexpr Mark::Kind trace_reset = "the order starts over";
/// The next phase has no backward; number 1: in training mode nevertheless.
inline constexpr Mark::Kind evaluating = "evaluation";

// Gathers of one parameter.
inline constexpr Mark::Kind in_flight = "in flight, gather {}";
inline constexpr Mark::Kind gathered_for = "gathered for visit {}";  // ahead of it
inline constexpr Mark::Kind kept_for = "kept for visit {}";          // after an earlier use

// The optimizer step.
inline constexpr Mark::Kind kept = "nothing to free";  // the parameter
inline constexpr Mark::Kind all_released = "all parameters are released";
inline constexpr Mark::Kind sub_group_ready = "group {} is stepped";
inline constexpr Mark::Kind step_done = "the step is done";

// Reads of parameters from NVMe.
inline constexpr Mark::Kind swapping_in = "reads begin, {} buffers are free";
inline constexpr Mark::Kind swapping_in_ahead = "reads begin, {} buffers are free, nobody waits";
inline constexpr Mark::Kind reading = "reading {} elements";      // with the file's padding
inline constexpr Mark::Kind reads_awaited = "{} reads are over";  // the host has waited for all
inline constexpr Mark::Kind buffer_released = "buffer released, {} were free";  // before

}  // namespace tessera::marks
