// SPDX-License-Identifier: Apache-2.0
// The links of a cluster as its collectives and copies see them, and what NCCL makes of them.
//
// The idea: NCCL chooses by constants of its own, so those are kept as they are; what a machine was
// measured to do differently is said by a handful of numbers beside its links. Formulas, units and
// sources are in docs/simulator.md.
#pragma once

#include <string>

#include "tessera/types.h"

namespace tessera::sim {

/// A link as a ring sees it. All but the first three may be left out of a cluster file.
struct Link {
  double bytes_per_s = 0;   // one direction, per GPU
  double efficiency = 1;    // share of it that large messages reach
  Time latency_ns = 0;      // of a step over this link; of a ring under LL128, to be exact
  double nccl_share = 0.8;  // share of it that NCCL's search counts on
  Time launch_ns = 0;       // once per collective that uses the link
  double sqrt_ns = 0;       // per square root of the message in MiB: pipelines that fill
  double end_steps = 0;     // steps' worth of local copies at both ends of a ring
  double ll_share = 1;      // share of what NCCL counts on that LL and LL128 carry
  // Of a network: the same of trees between nodes, under LL and LL128 and under Simple, and the
  // time until the first chunks have passed a tree under Simple.
  double tree_ll_share = 1;
  double tree_share = 1;
  Time tree_ns = 0;
  // Of GPUs without NVLink: where more than `switch_gpus` take part, they share one path. Of a
  // network: what the channels of one collective carry out of a node together, at most.
  double shared_bytes_per_s = 0;  // 0: no path is shared
  Index switch_gpus = 1;
  // Of nodes with several sockets: `socket_gpus` share the path of each. Where more take part, all
  // share the path between sockets instead, if its rate is given.
  double sockets_bytes_per_s = 0;  // 0: faster than within one
  Index socket_gpus = 0;           // 0: all are on one
  // Of a network: within a pod every node has its full rate, out of it a share.
  double oversubscription = 1;
  Index nodes_per_pod = 0;  // 0: all nodes are one pod
};

/// How NVLink SHARP was measured beside what NCCL counts on; a share of 0: there is none.
struct Nvls {
  double share = 0;
  double sqrt_ns = 0;  // per square root of the MiB beyond the first
};

/// What NCCL's choice depends on beside the links.
struct NcclFacts {
  enum class Cpu { intel, amd, arm };

  std::string version = "2.28";  // whose constants: 2.19, 2.27, 2.28, 2.30
  int compute_capability = 90;   // of the GPU, times ten
  Cpu cpu = Cpu::intel;
  Index nics_per_node = 0;    // 0: one per GPU
  bool nvlink = true;         // false: GPUs of a node meet over PCIe
  bool sharp = false;         // switches of the network reduce (CollNet)
  bool nvls_between = true;   // trees between nodes may use NVLS within them
  bool ll128_between = true;  // LL128 works between nodes
  // A tuner plugin's rule: all_reduce between nodes takes LL and LL128 for no more; 0: none.
  Bytes all_reduce_ll_most{};
};

/// Whether GPUs of that compute capability were there when the version was made: 2.19 is older than
/// Blackwell.
bool knows_gpu(const NcclFacts& facts);

}  // namespace tessera::sim
