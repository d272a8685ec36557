// SPDX-License-Identifier: Apache-2.0
#include "tests/storage/recording.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/random.h"

namespace tessera::test {
namespace {

using storage::Lane;
using storage::MemorySeries;

/// Often small, sometimes as large as it gets.
std::int64_t number(Random& random) {
  switch (random.below(12)) {
    case 0: return std::numeric_limits<std::int64_t>::max();
    case 1: return std::numeric_limits<std::int64_t>::min();
    case 2: return static_cast<std::int64_t>(random.next());
    default: return random.below(1000);
  }
}

std::string text(Random& random) {
  static const std::vector<std::string> texts = {"",
                                                 "plain",
                                                 "it's \"quoted\"; DROP TABLE op; --",
                                                 "model.layers.3",
                                                 "κόσμος 🚀",
                                                 std::string("nul\0inside", 10),
                                                 "tab\tand\nnewline",
                                                 "\xff\xfe not UTF-8"};
  return texts[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(texts.size())))];
}

template <class E>
E pick(Random& random, E last) {
  return static_cast<E>(random.below(static_cast<std::int64_t>(last) + 1));
}

void make_info(Random& random, const RecordingSize& size, Recording& r) {
  TraceRun& run = r.info.run;
  for (auto* field : {&run.name, &run.model, &run.scheme, &run.cluster, &run.backend, &run.options,
                      &run.version, &run.peak_name}) {
    *field = text(random);
  }
  run.seed = random.next() | std::uint64_t{1} << 63;
  run.ranks = size.ranks;
  run.ranks_per_node = 3;
  run.parameters = number(random);
  run.tokens_per_step = number(random);
  run.model_flops_per_step = 1.25e300;
  run.peak_flops_per_rank = 989e12;
  run.memory_per_rank = Bytes{number(random)};
  for (Rank rank = 0; rank < size.ranks; rank += 2) run.recorded_ranks.push_back(rank);
  r.info.steps = size.steps;
  r.info.streams = {{0, "compute", StreamRole::compute},
                    {1, "all_gather", StreamRole::communication},
                    {7, text(random), StreamRole::host}};
  r.info.communicators = {{0, "dp_shard", size.ranks, 1}, {3, text(random), 1, size.ranks}};
  for (std::int32_t id = 0; id < 5; ++id) {
    r.info.units.push_back({id, text(random), id, Numel{number(random)}, Numel{number(random)}});
  }
}

void make_ops(Random& random, const RecordingSize& size, Recording& r) {
  std::int32_t id = 0;
  for (std::int32_t i = 0; i < size.ops; ++i) {
    id += 1 + static_cast<std::int32_t>(random.below(3));
    const auto stream = r.info.streams[static_cast<std::size_t>(random.below(3))].id;
    r.ops.push_back({id,
                     pick(random, OpKind::mark),
                     stream,
                     random.chance(50) ? 3 : -1,
                     i * size.steps / size.ops,
                     static_cast<std::int32_t>(random.below(4)),
                     pick(random, Phase::optimizer),
                     pick(random, Reason::order),
                     text(random),
                     text(random),
                     text(random),
                     Bytes{number(random)},
                     pick(random, DType::uint8),
                     static_cast<double>(number(random)) * 0.1,
                     text(random),
                     {}});
    std::vector<std::int32_t> after;
    for (std::int32_t other = 0; other < id; other += 1 + id / 3) {
      if (random.chance(60)) after.push_back(other);
    }
    r.after.push_back(after);
  }
}

void make_lanes(Random& random, Recording& r) {
  for (const Rank rank : r.info.run.recorded_ranks) {
    for (const auto& stream : r.info.streams) {
      Lane lane;
      lane.rank = rank;
      lane.stream = stream.id;
      Time now = random.below(100);
      for (const auto& op : r.ops) {
        if (op.stream != stream.id || random.chance(10)) continue;
        lane.op.push_back(op.id);
        lane.begin.push_back(now);
        lane.ready.push_back(now + random.below(2) * random.below(1000));
        now = lane.ready.back() + random.below(3) * random.below(100'000);
        lane.end.push_back(now);
        now += random.below(2) * random.below(5000);
      }
      if (!lane.op.empty()) r.lanes.push_back(std::move(lane));
    }
  }
}

void make_memory(Random& random, const RecordingSize& size, Recording& r) {
  for (std::int32_t id = 2; id < 20; id += 3) {
    r.buffers.push_back({id, text(random), text(random), pick(random, MemoryClass::reserved_unused),
                         Bytes{number(random)}});
  }
  for (const Rank rank : r.info.run.recorded_ranks) {
    MemorySeries series;
    series.rank = rank;
    Time now = 0;
    for (std::int32_t i = 0; i < size.samples_per_rank; ++i) {
      series.time.push_back(now += random.below(1000));
      series.buffer.push_back(static_cast<std::int32_t>(random.below(20)));
      series.memory_class.push_back(pick(random, MemoryClass::reserved_unused));
      series.delta.emplace_back(number(random));
      series.allocated.emplace_back(number(random));
      series.reserved.emplace_back(number(random));
    }
    r.memory.push_back(std::move(series));
  }
}

void make_summaries(Random& random, const RecordingSize& size, Recording& r) {
  storage::RankSteps& s = r.rank_steps;
  s.ranks = size.ranks;
  s.steps = size.steps;
  for (std::int32_t i = 0; i < size.ranks * size.steps; ++i) {
    for (auto* column :
         {&s.begin, &s.end, &s.compute, &s.communication, &s.exposed, &s.blocking, &s.wait}) {
      column->push_back(number(random));
    }
    s.peak_allocated.emplace_back(number(random));
    s.peak_reserved.emplace_back(number(random));
  }
  r.info.end = s.end.empty() ? 0 : *std::max_element(s.end.begin(), s.end.end());
  for (std::int32_t step = 0; step < size.steps; ++step) {
    PeakMemory peak{step, 0, size.ranks, Bytes{number(random)}, Bytes{number(random)}, {}};
    for (Bytes& bytes : peak.by_class) bytes = Bytes{random.chance(50) ? number(random) : 0};
    r.peaks.push_back(peak);
    r.diagnostics.push_back({pick(random, TraceDiagnostic::Severity::data_loss), text(random),
                             random.chance(50) ? 1 : -1, -1, number(random), text(random)});
  }
}

void send_spans(const Recording& recording, std::size_t op, std::vector<std::size_t>& next,
                TraceSink& sink) {
  std::vector<Rank> ranks;
  std::vector<Time> begin, ready, end;
  for (std::size_t i = 0; i < recording.lanes.size(); ++i) {
    const Lane& lane = recording.lanes[i];
    if (next[i] == lane.op.size() || lane.op[next[i]] != recording.ops[op].id) continue;
    ranks.push_back(lane.rank);
    begin.push_back(lane.begin[next[i]]);
    ready.push_back(lane.ready[next[i]]);
    end.push_back(lane.end[next[i]]);
    ++next[i];
  }
  sink.spans({recording.ops[op].id, ranks, begin, ready, end});
}

void send_memory(const Recording& recording, TraceSink& sink) {
  for (const auto& b : recording.buffers) {
    sink.buffer({b.id, b.name, b.unit, b.memory_class, b.bytes});
  }
  for (const MemorySeries& m : recording.memory) {
    std::vector<MemorySample> samples;
    for (std::size_t i = 0; i < m.time.size(); ++i) {
      samples.push_back({m.rank, m.time[i], m.buffer[i], m.memory_class[i], m.delta[i],
                         m.allocated[i], m.reserved[i]});
    }
    sink.memory(samples);
  }
}

void send_steps(const storage::RankSteps& s, TraceSink& sink) {
  const auto ranks = static_cast<std::size_t>(s.ranks);
  for (std::int32_t step = 0; step < s.steps; ++step) {
    const auto of_step = [&](const auto& column) {
      return std::span(column).subspan(static_cast<std::size_t>(step) * ranks, ranks);
    };
    sink.rank_steps({step, of_step(s.begin), of_step(s.end), of_step(s.compute),
                     of_step(s.communication), of_step(s.exposed), of_step(s.blocking),
                     of_step(s.wait), of_step(s.peak_allocated), of_step(s.peak_reserved)});
  }
}

}  // namespace

Recording random_recording(std::uint64_t seed, const RecordingSize& size) {
  Random random(seed);
  Recording recording;
  make_info(random, size, recording);
  make_ops(random, size, recording);
  make_lanes(random, recording);
  make_memory(random, size, recording);
  make_summaries(random, size, recording);
  for (const storage::OpRow& op : recording.ops) {
    if (random.chance(30)) recording.kernels.push_back({0, op.id, number(random)});
    if (random.chance(30)) recording.kernels.push_back({size.ranks - 1, op.id, number(random)});
  }
  for (Rank rank = 0; rank < 2; ++rank) {
    storage::MemoryShortageRow row;
    row.rank = rank;
    row.time = number(random);
    row.buffer = static_cast<std::int32_t>(random.below(20));
    for (Bytes* bytes : {&row.request, &row.capacity, &row.free, &row.largest_free}) {
      *bytes = Bytes{number(random)};
    }
    for (std::int64_t address = 0; random.chance(80); address += 2) {
      row.map.push_back({Bytes{address}, Bytes{1 + random.below(1000)}, Bytes{number(random)},
                         random.chance(50) ? 7 : -1, random.chance(50) ? 2 : -1});
    }
    recording.shortages.push_back(row);
  }
  return recording;
}

void send(const Recording& recording, TraceSink& sink) {
  sink.begin(recording.info.run);
  for (const auto& s : recording.info.streams) sink.stream({s.id, s.name, s.role});
  for (const auto& c : recording.info.communicators) {
    sink.communicator({c.id, c.name, c.group_size, c.group_count});
  }
  for (const auto& u : recording.info.units) {
    sink.unit({u.id, u.name, u.parameters, u.numel, u.padding});
  }
  std::vector<std::size_t> next(recording.lanes.size());
  for (std::size_t i = 0; i < recording.ops.size(); ++i) {
    const storage::OpRow& op = recording.ops[i];
    sink.op({op.id, op.kind, op.stream, op.communicator, op.step, op.micro_batch, op.phase,
             op.reason, op.unit, op.module, op.label, op.bytes, op.dtype, op.flops, op.algorithm,
             recording.after[i]});
    send_spans(recording, i, next, sink);
  }
  send_memory(recording, sink);
  send_steps(recording.rank_steps, sink);
  for (const PeakMemory& peak : recording.peaks) sink.peak_memory(peak);
  for (auto k = recording.kernels.rbegin(); k != recording.kernels.rend(); ++k) {
    sink.kernel({k->rank, k->op, k->time});
  }
  for (const auto& d : recording.diagnostics) {
    sink.diagnostic({d.severity, d.code, d.rank, d.op, d.time, d.message});
  }
  for (storage::MemoryShortageRow row : recording.shortages) {
    row.blocks = row.map;
    sink.memory_shortage(row);
  }
}

std::string write(const Recording& recording, const std::string& path,
                  const storage::TraceWriterOptions& options) {
  auto writer = storage::TraceWriter::create(path, options);
  INFO(writer.status().message());
  REQUIRE(writer.ok());
  send(recording, **writer);
  const Status status = (*writer)->finish();
  INFO(status.message());
  REQUIRE(status.ok());
  return (*writer)->content_hash();
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  REQUIRE(file);
}

}  // namespace tessera::test
