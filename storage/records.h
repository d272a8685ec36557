// SPDX-License-Identifier: Apache-2.0
// Every table of a trace file, as one list of its columns.
//
// The idea: a column is written down once, with the field it comes from, its unit and what it
// means. The types of SQL, INSERT, SELECT, the content hash, the log between threads follow from
// the list (record_sql.h, call_log.cpp), and tests hold schema.sql and docs/trace-format.md against
// it. To add a column: its field in tessera/trace.h, its line here, its line in schema.sql, and who
// fills it; a column that older files lack is `later`.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>

#include "storage/column.h"
#include "storage/own_rows.h"
#include "tessera/storage/step_summary.h"

namespace tessera::storage {

template <>
struct List<MetaRow> {
  static constexpr const char* table = "meta";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("key", &MetaRow::key, "",
             "seed, options, version, steps, end, content_hash, perhaps sources"),
      column("value", &MetaRow::value, "",
             "numbers in decimal, content_hash in hexadecimal, options as JSON")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<TraceRun> {
  using R = TraceRun;
  static constexpr const char* table = "run";
  static constexpr Key key = Key::none;
  static constexpr std::tuple columns = {
      column("name", &R::name, "", "title"), column("model", &R::model, "", "model name"),
      column("scheme", &R::scheme, "", "sharding scheme, \"fully_shard\""),
      column("cluster", &R::cluster, "", "cluster name, or the host's name for a real run"),
      // Version 1 called the backend so, and columns are never renamed within a version.
      column("carrier", &R::backend, "",
             "the backend: \"simulator\", \"local\", \"mpi\", \"nccl\""),
      column("ranks", &R::ranks, "ranks", "size of the run"),
      column("ranks_per_node", &R::ranks_per_node, "ranks", "size of a node"),
      column("parameters", &R::parameters, "elements", "unique parameters of the model"),
      column("tokens_per_step", &R::tokens_per_step, "tokens",
             "of all ranks and micro-batches, 0: unknown"),
      column("model_flops_per_step", &R::model_flops_per_step, "FLOP",
             "of all ranks without recomputation, 0: unknown"),
      column("peak_flops_per_rank", &R::peak_flops_per_rank, "FLOP/s",
             "what MFU refers to, 0: unknown"),
      column("peak_name", &R::peak_name, "", "what peak_flops_per_rank is"),
      column("memory_per_rank", &R::memory_per_rank, "bytes", "device capacity, 0: unknown")};
  // In `meta` and `rank`.
  static constexpr std::tuple unlisted = {&R::options,     &R::sources,        &R::version,
                                          &R::seed,        &R::recorded_ranks, &R::recorded_from,
                                          &R::recorded_to, &R::records_memory};
};

template <>
struct List<RankRow> {
  static constexpr const char* table = "rank";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("rank", &RankRow::rank, "", "global rank number"),
      column("node", &RankRow::node, "", "index of its node: rank / ranks_per_node"),
      column("recorded", &RankRow::recorded, "",
             "1: has spans and memory samples, 0: only rank_step")};
  static constexpr std::tuple<> unlisted = {};
};

template <class Text>
struct List<StreamRecord<Text>> {
  using R = StreamRecord<Text>;
  static constexpr const char* table = "stream";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("id", &R::id, "", "what op.stream refers to"),
      column("name", &R::name, "", "title of the lane"),
      column("role", &R::role, "", "stream_role.id: what it is used for")};
  static constexpr std::tuple<> unlisted = {};
};

template <class Text>
struct List<CommunicatorRecord<Text>> {
  using R = CommunicatorRecord<Text>;
  static constexpr const char* table = "communicator";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("id", &R::id, "", "what op.communicator refers to"),
      column("name", &R::name, "", "mesh axis"),
      column("group_size", &R::group_size, "ranks", "of one group"),
      column("group_count", &R::group_count, "", "number of groups")};
  static constexpr std::tuple<> unlisted = {};
};

template <class Text>
struct List<UnitRecord<Text>> {
  using R = UnitRecord<Text>;
  static constexpr const char* table = "unit";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("id", &R::id, "", "ascending in order of declaration"),
      column("name", &R::name, "", "what op_view.unit shows"),
      column("parameters", &R::parameters, "", "number of parameter tensors"),
      column("numel", &R::numel, "elements", "unsharded, without padding"),
      column("padding", &R::padding, "elements", "added so that shards are equal")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<StringRow> {
  static constexpr const char* table = "string";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("id", &StringRow::id, "", "0 is the empty text"),
      column("text", &StringRow::text, "", "in order of first use")};
  static constexpr std::tuple<> unlisted = {};
};

template <class Text>
struct List<OpRecord<Text>> {
  using R = OpRecord<Text>;
  static constexpr const char* table = "op";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("id", &R::id, "", "ascending; also the id of the event recorded after it"),
      column("kind", &R::kind, "", "op_kind.id"),
      column("stream", &R::stream, "", "stream.id"),
      column("communicator", &R::communicator, "", "communicator.id, -1: not a collective"),
      column("step", &R::step, "", "training step"),
      column("micro_batch", &R::micro_batch, "", "micro-batch of the step"),
      column("phase", &R::phase, "", "phase.id"),
      column("reason", &R::reason, "", "reason.id: why it was issued now"),
      interned("unit", &R::unit, "string.id of the sharding unit"),
      interned("module", &R::module, "string.id of the module path"),
      interned("label", &R::label, "string.id of the text for a bar"),
      column("bytes", &R::bytes, "bytes", "full buffer of a collective, or copied, or moved"),
      column("dtype", &R::dtype, "", "dtype.id"),
      column("flops", &R::flops, "FLOP", "of one rank, compute only"),
      interned("algorithm", &R::algorithm, "string.id of the collective's algorithm")};
  static constexpr std::tuple unlisted = {&R::after};  // op_after
};

template <>
struct List<AfterRow> {
  static constexpr const char* table = "op_after";
  static constexpr Key key = Key::two;
  static constexpr std::tuple columns = {
      column("op", &AfterRow::op, "", "op.id"),
      column("after", &AfterRow::after, "", "op.id of what it waited for besides its own stream")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<TraceKernel> {
  using R = TraceKernel;
  static constexpr const char* table = "op_kernel";
  static constexpr Key key = Key::two;
  static constexpr std::tuple columns = {
      column("op", &R::op, "", "op.id, a collective"), column("rank", &R::rank, "", "rank.rank"),
      column("time", &R::time, "ns",
             "from the first start of its kernels on the device to the last end")};
  static constexpr std::tuple<> unlisted = {};
};

template <class Text>
struct List<BufferRecord<Text>> {
  using R = BufferRecord<Text>;
  static constexpr const char* table = "buffer";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("id", &R::id, "", "what memory samples refer to"),
      interned("name", &R::name, "string.id"),
      interned("unit", &R::unit, "string.id of the sharding unit"),
      column("memory_class", &R::memory_class, "", "memory_class.id"),
      column("bytes", &R::bytes, "bytes", "size on one rank")};
  static constexpr std::tuple<> unlisted = {};
};

/// RankStepColumns with any kind of column; a row has the rank, too.
template <class R>
inline constexpr std::tuple rank_step_columns = {
    column("begin", &R::begin, "ns", "the step's begin on that rank"),
    column("end", &R::end, "ns", "the step's end on that rank"),
    column("compute", &R::compute, "ns", "the compute stream works"),
    column("communication", &R::communication, "ns", "sum of the collectives' transfer times"),
    column("exposed", &R::exposed, "ns", "a collective runs or waits while compute does nothing"),
    column("blocking", &R::blocking, "ns", "the compute stream stands still for a collective"),
    column("wait", &R::wait, "ns", "inside collectives, waiting for the last member"),
    column("peak_allocated", &R::peak_allocated, "bytes", "the step's maximum"),
    column("peak_reserved", &R::peak_reserved, "bytes", "the step's maximum")};

template <>
struct List<RankStepRow> {
  using R = RankStepRow;
  static constexpr const char* table = "rank_step";
  static constexpr Key key = Key::two;
  static constexpr auto columns =
      std::tuple_cat(std::tuple{column("step", &R::step, "", "training step, from 0 without gaps"),
                                column("rank", &R::rank, "", "rank.rank; every rank has a row")},
                     rank_step_columns<R>);
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<PeakMemory> {
  using R = PeakMemory;
  static constexpr const char* table = "peak_memory";
  static constexpr Key key = Key::arrival;
  static constexpr std::tuple columns = {
      column("step", &R::step, "", "training step"),
      column("first_rank", &R::first_rank, "", "the ranks [first_rank, end_rank) behave alike"),
      column("end_rank", &R::end_rank, "", "one past the last of them"),
      column("allocated", &R::allocated, "bytes", "the step's highest"),
      column("reserved", &R::reserved, "bytes", "held from the device at that moment")};
  static constexpr std::tuple unlisted = {&R::by_class};  // peak_memory_class
};

template <>
struct List<PeakClassRow> {
  using R = PeakClassRow;
  static constexpr const char* table = "peak_memory_class";
  static constexpr Key key = Key::two;
  static constexpr std::tuple columns = {
      column("peak", &R::peak, "", "peak_memory.id"),
      column("memory_class", &R::memory_class, "", "memory_class.id"),
      column("bytes", &R::bytes, "bytes", "of the class at that moment; no row: 0")};
  static constexpr std::tuple<> unlisted = {};
};

template <class Text>
struct List<DiagnosticRecord<Text>> {
  using R = DiagnosticRecord<Text>;
  static constexpr const char* table = "diagnostic";
  static constexpr Key key = Key::arrival;
  static constexpr std::tuple columns = {
      column("severity", &R::severity, "", "severity.id"),
      column("code", &R::code, "", "\"out_of_memory\", \"hazard\", ..."),
      column("rank", &R::rank, "", "first rank concerned, -1: all"),
      column("op", &R::op, "", "op.id concerned, -1: none"),
      column("time", &R::time, "ns", "when"),
      column("message", &R::message, "", "one sentence")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<TraceMemoryShortage> {
  using R = TraceMemoryShortage;
  static constexpr const char* table = "memory_shortage";
  static constexpr Key key = Key::arrival;
  static constexpr std::tuple columns = {
      column("rank", &R::rank, "", "rank.rank"),
      column("time", &R::time, "ns", "when"),
      column("buffer", &R::buffer, "", "buffer.id of what was asked for"),
      column("request", &R::request, "bytes", "its size"),
      column("capacity", &R::capacity, "bytes", "what may be taken from the device"),
      column("free", &R::free, "bytes", "of the capacity, what nobody held"),
      column("largest_free", &R::largest_free, "bytes",
             "the largest block that the request could have had")};
  static constexpr std::tuple unlisted = {&R::blocks};  // memory_block
};

template <>
struct List<MemoryBlockRow> {
  using R = MemoryBlockRow;
  static constexpr const char* table = "memory_block";
  static constexpr Key key = Key::two;
  static constexpr std::tuple columns = {
      column("shortage", &R::shortage, "", "memory_shortage.id"),
      column("address", &R::address, "bytes", "from the start of the allocator's range"),
      column("bytes", &R::bytes, "bytes", "its size"),
      column("segment", &R::segment, "bytes",
             "address of what it was cut from; blocks of two never join"),
      column("stream", &R::stream, "", "stream.id whose requests it serves, -1: any"),
      column("buffer", &R::buffer, "", "buffer.id of what lies there, -1: it is free")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<SpanChunkRow> {
  using R = SpanChunkRow;
  static constexpr const char* table = "span_chunk";
  static constexpr Key key = Key::three;
  static constexpr std::tuple columns = {
      column("rank", &R::rank, "", "rank.rank"),
      column("stream", &R::stream, "", "-3: all streams of the rank; versions 1 and 2: stream.id"),
      column("seq", &R::seq, "", "0, 1, ... within (rank, stream)"),
      column("count", &R::count, "", "spans in it, 1 to 16384"),
      column("t0", &R::t0, "ns", "the earliest begin in it"),
      column("t1", &R::t1, "ns", "the latest end in it"),
      column("checksum", &R::checksum, "", "of the columns above and data"),
      unhashed("data", &R::data, "packed columns of spans")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<MemoryChunkRow> {
  using R = MemoryChunkRow;
  static constexpr const char* table = "memory_chunk";
  static constexpr Key key = Key::two;
  static constexpr std::tuple columns = {
      column("rank", &R::rank, "", "rank.rank"),
      column("seq", &R::seq, "", "0, 1, ... within the rank, ascending in time"),
      column("count", &R::count, "", "samples in it, 1 to 16384"),
      column("t0", &R::t0, "ns", "the earliest time in it"),
      column("t1", &R::t1, "ns", "the latest time in it"),
      column("checksum", &R::checksum, "", "of the columns above and data"),
      unhashed("data", &R::data, "packed columns from edge to reserved")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<RankStepChunkRow> {
  using R = RankStepChunkRow;
  static constexpr const char* table = "rank_step_chunk";
  static constexpr Key key = Key::two;
  static constexpr std::tuple columns = {
      column("step", &R::step, "", "training step, from 0 without gaps"),
      column("rank", &R::rank, "", "rank.rank of the first one in it"),
      column("count", &R::count, "ranks", "in it, 1 to 4096"),
      column("t0", &R::t0, "ns", "the earliest begin in it"),
      column("t1", &R::t1, "ns", "the latest end in it"),
      column("checksum", &R::checksum, "", "of the columns above and data"),
      unhashed("data", &R::data, "packed columns of rank_step")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<StepSummaryRow> {
  using R = StepSummaryRow;
  static constexpr const char* table = "step_summary";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("step", &R::step, "", "training step"),
      column("begin", &R::begin, "ns", "the first rank's"),
      column("end", &R::end, "ns", "the last rank's"),
      column("shortest", &R::shortest, "ns", "end - begin of the fastest rank"),
      column("median", &R::median, "ns", "of the ranks"),
      column("longest", &R::longest, "ns", "of the slowest rank"),
      column("slowest", &R::slowest, "", "rank.rank, the first of equals"),
      column("peak_allocated", &R::peak_allocated, "bytes", "the highest of a rank"),
      column("peak_reserved", &R::peak_reserved, "bytes", "the highest of a rank")};
  static constexpr std::tuple<> unlisted = {};
};

template <>
struct List<RankSummaryRow> {
  using R = RankSummaryRow;
  static constexpr const char* table = "rank_summary";
  static constexpr Key key = Key::first;
  static constexpr std::tuple columns = {
      column("rank", &R::rank, "", "rank.rank"),
      column("steps", &R::steps, "", "those that take time; the columns of times are sums of them"),
      column("time", &R::time, "ns", "end - begin"),
      column("compute", &R::compute, "ns", "as in rank_step"),
      column("communication", &R::communication, "ns", "as in rank_step"),
      column("exposed", &R::exposed, "ns", "as in rank_step"),
      column("blocking", &R::blocking, "ns", "as in rank_step"),
      column("wait", &R::wait, "ns", "as in rank_step"),
      column("peak_allocated", &R::peak_allocated, "bytes", "the highest of a step"),
      column("peak_reserved", &R::peak_reserved, "bytes", "the highest of a step")};
  static constexpr std::tuple<> unlisted = {};
};

// Records that a sink is told in columns and no table has as rows: only the log between threads
// needs it.

template <>
struct List<SpanBatch> {
  using R = SpanBatch;
  static constexpr std::tuple<> columns = {};
  static constexpr std::tuple unlisted = {&R::op, &R::ranks, &R::begin, &R::ready, &R::end};
};

template <>
struct List<RankStepBatch> {
  static constexpr auto columns = rank_step_columns<RankStepBatch>;
  static constexpr std::tuple unlisted = {&RankStepBatch::step};
};

/// All tables, in the order of the content hash; those that came later, and `string`, whose texts
/// are hashed where they are used, are not in it.
using HashedTables =
    std::tuple<MetaRow, TraceRun, RankRow, TraceStream, TraceCommunicator, TraceUnit, TraceOp,
               AfterRow, TraceBuffer, RankStepChunkRow, PeakMemory, PeakClassRow, TraceDiagnostic,
               SpanChunkRow, MemoryChunkRow>;
using OtherTables = std::tuple<StringRow>;
/// Files may lack them, or have nothing in them.
using LaterTables =
    std::tuple<TraceKernel, TraceMemoryShortage, MemoryBlockRow, StepSummaryRow, RankSummaryRow>;
/// Of the first version: it has rows in the place of RankStepChunkRow.
using OlderTables = std::tuple<RankStepRow>;

}  // namespace tessera::storage
