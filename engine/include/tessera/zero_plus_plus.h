// SPDX-License-Identifier: Apache-2.0
// ZeRO++ (arXiv 2306.10209): ZeRO-3 that sends a quarter as much between nodes.
//
//   Zero3Options options;
//   options.plus_plus = {.secondary_group = 8, .quantized_weights = true,
//                        .quantized_gradients = true, .ranks_per_node = 8};
//
// The idea: of three times the model in 16 bit per step, forward's gather is sent in 8 bit, that of
// backward stays inside a node, and gradients are sent in 4 bit: 3 M becomes 0.5 M + 0 + 0.25 M.
//
// - `quantized_weights`: a gather sends int8 and one float32 scale per block of up to 8000
//   elements; all ranks, the owner too, see the rounded values. The masters stay float32, and
//   what is gathered right after a step because it is persistent is gathered as it is.
// - `secondary_group`: what forward gathered is kept once more in groups of so many neighbours, 2
//   bytes * parameters / group on every rank. Backward gathers from there. The optimizer step makes
//   it worthless.
// - `quantized_gradients`: with more than one node, two all_to_all in 4 bit, first inside nodes,
//   then between ranks with the same place in their node; what arrives is added up in float32 and
//   quantised anew for the second. Parameters with one dimension, and those whose elements are no
//   multiple of 2 * ranks, are reduce-scattered as ever.
//
// Not as in DeepSpeed: the codes of a coalesced gather are those of the whole, not of each
// parameter, whose elements need be no multiple of 8; there is no LoCo. Staging of quantised data
// is not in `live_budget`.
#pragma once

#include "tessera/types.h"

namespace tessera {

/// Names in brackets: the keys of DeepSpeed's `zero_optimization`.
struct ZeroPlusPlus {
  Index secondary_group = 1;         // ranks; 1: none [zero_hpz_partition_size]
  bool quantized_weights = false;    // [zero_quantized_weights]
  bool quantized_gradients = false;  // [zero_quantized_gradients]
  Index ranks_per_node = 8;          // for quantized_gradients
};

}  // namespace tessera
