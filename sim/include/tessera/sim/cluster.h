// SPDX-License-Identifier: Apache-2.0
// The machine that a run is simulated on: GPUs, nodes and links, read from a small JSON file.
//
// The idea: one file per kind of node, taken N times. Every number has its unit in its name and its
// source in docs/simulator.md.
//
//   Result<Cluster> cluster = load_cluster("dgx-h100", /*nodes=*/8);   // a preset, or a file
//   cluster->ranks();                                                  // 64
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/sim/gpu.h"
#include "tessera/sim/network.h"
#include "tessera/status.h"
#include "tessera/trace.h"
#include "tessera/types.h"

namespace tessera::sim {

/// Memory of a node's CPUs, shared by its GPUs.
struct HostMemory {
  double bytes_per_s = 200e9;  // that the CPU's optimizer reaches, reads and writes together
  double links_bytes_per_s =
      0;  // of the path that all GPUs' copies cross; 0: their links alone limit
};

/// Drives of a node, shared by its GPUs; rates of 0: it has none.
struct Nvme {
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
  Time latency_ns = 0;  // per copy
  // Past host memory (GPUDirect Storage); 0: as above.
  double direct_read_bytes_per_s = 0;
  double direct_write_bytes_per_s = 0;

  double direct_read() const {
    return direct_read_bytes_per_s > 0 ? direct_read_bytes_per_s : read_bytes_per_s;
  }
  double direct_write() const {
    return direct_write_bytes_per_s > 0 ? direct_write_bytes_per_s : write_bytes_per_s;
  }
};

/// How GPUs of one kind differ from each other: the standard deviations of the shares by which they
/// are slower than their average, for good.
struct Spread {
  double gpu = 0;
  double node = 0;  // of all GPUs of a node together
};

/// Collectives that were measured: their time beside what everything else says of it.
struct MeasuredFactors {
  OpKind kind = OpKind::all_gather;
  Index ranks = 1, nodes = 1;  // of such groups only
  std::vector<Bytes> bytes;    // ascending
  std::vector<double> factors;

  /// Between two sizes by the root of the size. Beyond them that of the last one, where both are
  /// of 1 MiB and more or both of 32 KiB and less; otherwise it nears 1, and is 1 at 16 times the
  /// size.
  double at(Bytes size) const;

 private:
  double beyond(std::size_t k, Bytes size) const;
};

struct Cluster {
  std::string name;  // "dgx-h100"
  Index nodes = 1;
  Index gpus_per_node = 8;
  Gpu gpu;
  Link intra_node;                      // NVLink
  Link inter_node{.nccl_share = 0.96};  // NIC share of one GPU
  Link host;                            // PCIe between GPU and host memory
  HostMemory host_memory;
  Nvme nvme;
  Nvls nvls;
  NcclFacts nccl;
  Time collective_launch_ns = 6600;  // fixed cost of a collective; of a ring under LL, to be exact
  Time collective_floor_ns = 0;      // no collective takes less
  Spread spread;
  std::vector<MeasuredFactors> measured;
  bool shipped = false;  // as shipped, not a file that changed something

  Rank ranks() const { return nodes * gpus_per_node; }
};

/// A preset ("dgx-h100"; `cluster_presets` has all) or a JSON file, taken `nodes` times.
/// Fails: invalid_argument (unknown preset: lists the known ones; bad key or value: names file and
/// key; nodes < 1), io_error (unreadable file).
Result<Cluster> load_cluster(const std::string& name_or_path, Index nodes);

/// The same from text; `source` names it in messages.
Result<Cluster> parse_cluster(std::string_view json, const std::string& source, Index nodes);

/// The JSON that `load_cluster` reads, once it is known to be good. Fails: as that does.
Result<std::string> cluster_text(const std::string& name_or_path);

/// A sentence for each number that says nothing in nodes of so many GPUs.
std::vector<std::string> idle_numbers(const Cluster& cluster);

/// Names of the shipped presets.
std::vector<std::string> cluster_presets();

}  // namespace tessera::sim
