// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/coarse_spans.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <optional>

namespace tessera::inspector {
namespace {

constexpr int spans_per_node = 64;
constexpr std::size_t nodes_kept = 2'500'000;  // of about 45 bytes

/// The node under way of one stream, and those before it.
struct NodeRun {
  std::vector<SpanPyramid::Node> nodes;
  std::array<Time, op_class_count> by_class{};
  int spans = 0;

  void add(Time begin, Time ready, Time end, OpClass op_class) {
    if (spans == 0) {
      nodes.push_back({begin, end, 0, 0, op_class});
      by_class = {};
    }
    SpanPyramid::Node& node = nodes.back();
    node.t1 = std::max(node.t1, end);
    node.busy += end - begin;
    node.wait += ready - begin;
    Time& sum = by_class[static_cast<std::size_t>(op_class)];
    sum += end - begin;
    if (sum > by_class[static_cast<std::size_t>(node.dominant)]) node.dominant = op_class;
    if (++spans == spans_per_node) spans = 0;
  }
};

// One chunk after the other, so that one is in memory at once.
Status add_spans(const storage::TraceReader& reader, OpClasses& classes, Rank rank,
                 std::map<std::int32_t, NodeRun>& runs) {
  TESSERA_ASSIGN(const auto stretches, reader.span_stretches(rank));
  for (const storage::SpanStretch& stretch : stretches) {
    TESSERA_ASSIGN(const auto lanes, reader.lanes(rank, stretch));
    for (const storage::Lane& lane : lanes) {
      NodeRun& run = runs[lane.stream];
      for (std::size_t i = 0; i < lane.op.size(); ++i) {
        run.add(lane.begin[i], lane.ready[i], lane.end[i], classes.at(lane.op[i]));
      }
    }
  }
  return {};
}

}  // namespace

/// What the thread reads with, opened when it begins.
struct CoarseSpans::Source {
  std::string path;
  std::optional<storage::TraceReader> reader;
  std::optional<OpClasses> classes;

  Status open() {
    if (classes) return {};
    TESSERA_ASSIGN(storage::TraceReader opened, storage::TraceReader::open(path));
    reader.emplace(std::move(opened));
    TESSERA_ASSIGN(OpClasses found, OpClasses::of(*reader));
    classes.emplace(std::move(found));
    return {};
  }
};

CoarseSpans::~CoarseSpans() {
  if (job_.valid()) job_.wait();
}

const SpanPyramid* CoarseRank::lane(std::int32_t stream) const {
  for (const CoarseLane& lane : lanes) {
    if (lane.stream == stream) return &lane.pyramid;
  }
  return nullptr;
}

std::shared_ptr<CoarseRank> CoarseSpans::read(Source& source, Rank rank) {
  auto coarse = std::make_shared<CoarseRank>();
  coarse->problem = source.open();
  if (!coarse->problem.ok()) return coarse;
  std::map<std::int32_t, NodeRun> runs;
  coarse->problem = add_spans(*source.reader, *source.classes, rank, runs);
  if (coarse->problem.ok()) coarse->problem = source.classes->problem();
  if (!coarse->problem.ok()) return coarse;
  for (auto& [stream, run] : runs) {
    coarse->nodes += run.nodes.size();
    coarse->lanes.push_back({stream, SpanPyramid(std::move(run.nodes))});
  }
  return coarse;
}

void CoarseSpans::take() {
  constexpr std::chrono::seconds now{0};
  if (!job_.valid() || job_.wait_for(now) == std::future_status::timeout) return;
  ranks_[sought_] = job_.get();
  ranks_[sought_]->used = frame_;
}

const CoarseRank* CoarseSpans::of(Rank rank) {
  take();
  const auto known = ranks_.find(rank);
  if (known != ranks_.end()) {
    known->second->used = frame_;
    return known->second.get();
  }
  if (job_.valid()) {
    if (!patient_) return nullptr;
    job_.wait();
    take();
  }
  if (source_ == nullptr) source_ = std::make_shared<Source>(Source{path_, {}, {}});
  sought_ = rank;
  job_ = std::async(patient_ ? std::launch::deferred : std::launch::async,
                    [source = source_, rank] { return read(*source, rank); });
  if (!patient_) return nullptr;
  job_.wait();
  take();
  return ranks_[rank].get();
}

void CoarseSpans::begin_frame() {
  constexpr std::int64_t in_use = 3;  // frames
  ++frame_;
  take();
  std::size_t nodes = 0;
  for (const auto& [rank, coarse] : ranks_) nodes += coarse->nodes;
  while (nodes > nodes_kept) {
    const auto oldest = std::min_element(
        ranks_.begin(), ranks_.end(),
        [](const auto& a, const auto& b) { return a.second->used < b.second->used; });
    if (oldest->second->used + in_use > frame_) return;
    nodes -= oldest->second->nodes;
    ranks_.erase(oldest);
  }
}

}  // namespace tessera::inspector
