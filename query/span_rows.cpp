// SPDX-License-Identifier: Apache-2.0
#include "query/span_rows.h"

#include <algorithm>
#include <array>

#include "tessera/analysis/collectives.h"
#include "tessera/analysis/spans.h"

namespace tessera::query {
namespace {

using analysis::Trace;
using storage::Lane;

constexpr std::array span_columns = {ColumnKind{"rank", "INTEGER", Bound::rank},
                                     ColumnKind{"stream", "INTEGER", Bound::stream},
                                     ColumnKind{"op", "INTEGER", Bound::op},
                                     ColumnKind{"begin", "INTEGER", Bound::begin},
                                     ColumnKind{"ready", "INTEGER"},
                                     ColumnKind{"end", "INTEGER", Bound::end},
                                     ColumnKind{"duration", "INTEGER"},
                                     ColumnKind{"wait", "INTEGER"}};

/// Lanes of a rank as one sequence of rows.
class LaneRows : public Rows {
 public:
  std::size_t size() const override { return places_.size(); }

 protected:
  struct Place {
    std::uint32_t lane, index;
  };

  Status load_lanes(Source& source, Rank rank, const Wanted& wanted, bool all_streams) {
    places_.clear();
    TESSERA_ASSIGN(trace_, source.trace());
    std::optional<std::int32_t> stream = wanted.stream;
    if (!stream && wanted.op) stream = trace_->op(*wanted.op).stream;
    TESSERA_ASSIGN(lanes_, trace_->reader().lanes(rank, wanted.from, wanted.to,
                                                  all_streams ? std::nullopt : stream));
    for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      if (stream && lanes_[lane].stream != *stream) continue;
      const std::vector<std::int32_t>& ops = lanes_[lane].op;
      for (std::uint32_t i = 0; i < ops.size(); ++i) {
        if (!wanted.op || ops[i] == *wanted.op) places_.push_back({lane, i});
      }
    }
    return {};
  }
  const Trace& trace() const { return *trace_; }
  const std::vector<Lane>& lanes() const { return lanes_; }
  const Lane& lane(std::size_t row) const { return lanes_[places_[row].lane]; }
  std::size_t index(std::size_t row) const { return places_[row].index; }

 private:
  const Trace* trace_ = nullptr;
  std::vector<Lane> lanes_;
  std::vector<Place> places_;
};

class SpanRows : public LaneRows {
 public:
  Status load(Source& source, Rank rank, const Wanted& wanted) override {
    return load_lanes(source, rank, wanted, false);
  }
  void value(std::size_t row, int column, Cell& cell) const override {
    const Lane& from = lane(row);
    const std::size_t i = index(row);
    switch (column) {
      case 0: return cell.integer(from.rank);
      case 1: return cell.integer(from.stream);
      case 2: return cell.integer(from.op[i]);
      case 3: return cell.integer(from.begin[i]);
      case 4: return cell.integer(from.ready[i]);
      case 5: return cell.integer(from.end[i]);
      case 6: return cell.integer(from.end[i] - from.begin[i]);
      default: return cell.integer(from.ready[i] - from.begin[i]);
    }
  }
};

constexpr std::array op_rank_columns = {ColumnKind{"rank", "INTEGER", Bound::rank},
                                        ColumnKind{"op", "INTEGER", Bound::op},
                                        ColumnKind{"stream", "INTEGER", Bound::stream},
                                        ColumnKind{"stream_name", "TEXT"},
                                        ColumnKind{"kind", "TEXT"},
                                        ColumnKind{"step", "INTEGER"},
                                        ColumnKind{"micro_batch", "INTEGER"},
                                        ColumnKind{"phase", "TEXT"},
                                        ColumnKind{"reason", "TEXT"},
                                        ColumnKind{"unit", "TEXT"},
                                        ColumnKind{"module", "TEXT"},
                                        ColumnKind{"label", "TEXT"},
                                        ColumnKind{"algorithm", "TEXT"},
                                        ColumnKind{"bytes", "INTEGER"},
                                        ColumnKind{"flops", "REAL"},
                                        ColumnKind{"begin", "INTEGER", Bound::begin},
                                        ColumnKind{"ready", "INTEGER"},
                                        ColumnKind{"end", "INTEGER", Bound::end},
                                        ColumnKind{"duration", "INTEGER"},
                                        ColumnKind{"wait", "INTEGER"},
                                        ColumnKind{"transfer", "INTEGER"},
                                        ColumnKind{"exposed", "INTEGER"},
                                        ColumnKind{"bus_bandwidth", "REAL"}};

class OpRankRows : public LaneRows {
 public:
  Status load(Source& source, Rank rank, const Wanted& wanted) override {
    // What is exposed depends on the streams that compute, also beyond the range: a collective at
    // its edge is hidden there, too.
    TESSERA_TRY(load_lanes(source, rank, wanted, true));
    const auto [from, to] = collectives_in(wanted);
    const bool whole = from >= wanted.from && to <= wanted.to;
    beyond_.clear();
    if (!whole) {
      TESSERA_ASSIGN(beyond_, trace().reader().lanes(rank, from, to));
    }
    compute_ = analysis::compute_lanes(trace(), whole ? lanes() : beyond_);
    return {};
  }
  void value(std::size_t row, int column, Cell& cell) const override {
    if (column < first_fact) return of_op(row, column, cell);
    const std::size_t i = index(row);
    const Lane& from = lane(row);
    switch (column - first_fact) {
      case 0: return cell.integer(from.begin[i]);
      case 1: return cell.integer(from.ready[i]);
      case 2: return cell.integer(from.end[i]);
      case 3: return cell.integer(from.end[i] - from.begin[i]);
      default: break;
    }
    const storage::OpRow& op = trace().op(from.op[i]);
    if (!is_collective(op.kind)) return cell.nothing();
    switch (column - first_fact) {
      case 4: return cell.integer(from.ready[i] - from.begin[i]);
      case 5: return cell.integer(from.end[i] - from.ready[i]);
      case 6: return cell.integer(analysis::facts_of(trace(), compute_, from, i).exposed);
      default: return cell.real(analysis::bus_bandwidth(trace(), op, from.end[i] - from.ready[i]));
    }
  }

 private:
  static constexpr int first_fact = 15;

  /// From the begin of the first to the end of the last, at least what is wanted.
  std::pair<Time, Time> collectives_in(const Wanted& wanted) const {
    Time from = wanted.from, to = wanted.to;
    for (std::size_t row = 0; row < size(); ++row) {
      const Lane& in = lane(row);
      const std::size_t i = index(row);
      if (!is_collective(trace().op(in.op[i]).kind)) continue;
      from = std::min(from, in.begin[i]);
      to = std::max(to, in.end[i]);
    }
    return {from, to};
  }

  void of_op(std::size_t row, int column, Cell& cell) const {
    const Lane& from = lane(row);
    const storage::OpRow& op = trace().op(from.op[index(row)]);
    switch (column) {
      case 0: return cell.integer(from.rank);
      case 1: return cell.integer(from.op[index(row)]);
      case 2: return cell.integer(from.stream);
      case 3: return cell.text(trace().stream(from.stream).name);
      case 4: return cell.text(name_of(op.kind));
      case 5: return cell.integer(op.step);
      case 6: return cell.integer(op.micro_batch);
      case 7: return cell.text(name_of(op.phase));
      case 8: return cell.text(name_of(op.reason));
      case 9: return cell.text(op.unit);
      case 10: return cell.text(op.module);
      case 11: return cell.text(op.label);
      case 12: return cell.text(op.algorithm);
      case 13: return cell.integer(op.bytes.value);
      default: return cell.real(op.flops);
    }
  }

  std::vector<Lane> beyond_;  // of the range, where collectives go on there
  std::vector<const Lane*> compute_;
};

}  // namespace

const TableKind span_table = {"span", span_columns,
                              [] { return std::unique_ptr<Rows>(new SpanRows); }};
const TableKind op_rank_table = {"op_rank", op_rank_columns,
                                 [] { return std::unique_ptr<Rows>(new OpRankRows); }};

}  // namespace tessera::query
