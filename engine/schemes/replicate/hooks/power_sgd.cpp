// SPDX-License-Identifier: Apache-2.0
// PowerSGD (Vogels et al., arXiv 1905.13727, algorithm 1): one step of power iteration per step of
// training, on the gradients of all ranks together.
#include <fmt/format.h>

#include <map>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/replicate/hooks/low_rank.h"
#include "engine/schemes/replicate/hooks/mean.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

Numbers reading(const BodyContext& context, std::size_t i, DType dtype) {
  return {.read = context.read(i), .write = {}, .dtype = dtype};
}
// A computation on views that are read and written, or written before they are read.
Numbers writing(const BodyContext& context, std::size_t i, DType dtype) {
  return {.read = context.write(i), .write = context.write(i), .dtype = dtype};
}

double flops(const LowRankPlan& plan) {  // of one product with a thin matrix
  double sum = 0;
  for (const LowRank& m : plan.matrices) {
    sum += 2.0 * static_cast<double>(m.rows * m.columns * m.rank);
  }
  return sum;
}

// One bucket, with the memory that outlives a step.
struct Compressed {
  Numel numel{};
  LowRankPlan plan;
  BufferId error;  // error_feedback: what compression lost, and in between what it got
  BufferId q;      // warm_start: kept
};

// The operations of one bucket in one step.
class Compression {
 public:
  Compression(Compressed& state, const GradBucket& bucket, HookContext& context)
      : state_(state), plan_(state.plan), bucket_(bucket.values), context_(context) {}

  // Torch keeps an error for uncompressed parts, too. Their mean is exact, so there is none.
  Status add_error() {
    if (!state_.error.valid()) {
      TESSERA_ASSIGN(state_.error, allocate("error", bucket_.numel));
      View none = bucket_;
      none.buffer = BufferId{};
      TESSERA_TRY(submit(copy(none, all(state_.error, bucket_.numel))));
    }
    TESSERA_TRY(submit(add(all(state_.error, bucket_.numel), bucket_)));
    return submit(copy(bucket_, all(state_.error, bucket_.numel)));
  }

  Status reduce_rest() {
    if (plan_.rest.empty()) return {};
    TESSERA_ASSIGN(const BufferId rest, allocate("uncompressed", plan_.rest_numel));
    Copy in, out;
    Numel at{};
    for (const BucketParameter& p : plan_.rest) {
      const View from = View::part(bucket_.buffer, bucket_.dtype, p.offset, p.numel);
      const View to = View::part(rest, bucket_.dtype, at, p.numel);
      in.pieces.push_back({.from = from, .to = to});
      out.pieces.push_back({.from = to, .to = from});
      at += p.numel;
    }
    TESSERA_TRY(submit(std::move(in)));
    TESSERA_TRY(reduce_to_mean(all(rest, plan_.rest_numel), context_).status());
    TESSERA_TRY(submit(std::move(out)));
    return context_.release(rest);
  }

  Status begin_q(std::uint64_t seed) {
    if (!state_.q.valid()) {
      TESSERA_ASSIGN(state_.q, allocate("Q", plan_.q));
      View none = all(state_.q, plan_.q);
      none.buffer = BufferId{};
      TESSERA_TRY(submit(copy(none, q())));
    }
    Compute work;
    work.reads = {q()};
    work.writes = {q()};
    work.on_numbers = true;
    work.body = [plan = plan_, dtype = bucket_.dtype, seed](const BodyContext& context) {
      const Numbers q = writing(context, 0, dtype);
      for (const LowRank& m : plan.matrices) {
        fill_zero_columns(m, q, seed);
        orthogonalise(m.columns, m.rank, m.q, q);
      }
    };
    return submit(std::move(work));
  }

  Status reduce_factors() {
    TESSERA_ASSIGN(p_, allocate("P", plan_.p));
    Compute forward{.cost = cost(), .reads = {bucket_, q()}, .writes = {p()}, .body = {}};
    forward.on_numbers = true;
    forward.body = [plan = plan_, dtype = bucket_.dtype](const BodyContext& context) {
      for (const LowRank& m : plan.matrices) {
        multiply_by_q(m, reading(context, 0, dtype), reading(context, 1, dtype),
                      writing(context, 0, dtype));
      }
    };
    TESSERA_TRY(submit(std::move(forward)));
    TESSERA_TRY(context_.all_reduce(p()).status());
    Compute back{.cost = cost(), .reads = {bucket_, p()}, .writes = {p(), q()}, .body = {}};
    back.on_numbers = true;
    back.body = [plan = plan_, dtype = bucket_.dtype](const BodyContext& context) {
      const Numbers p = writing(context, 0, dtype);
      for (const LowRank& m : plan.matrices) {
        orthogonalise(m.rows, m.rank, m.p, p);
        multiply_by_p(m, reading(context, 0, dtype), p, writing(context, 1, dtype));
      }
    };
    TESSERA_TRY(submit(std::move(back)));
    return context_.all_reduce(q()).status();
  }

  Status decompress() {
    TESSERA_ASSERT(p_.valid() && state_.q.valid(),
                   "factors were reduced before they are multiplied");
    Compute work{.cost = cost(), .reads = {p(), q()}, .writes = {bucket_}, .body = {}};
    work.on_numbers = true;
    work.body = [plan = plan_, dtype = bucket_.dtype,
                 divisor = context_.divisor()](const BodyContext& context) {
      for (const LowRank& m : plan.matrices) {
        expand(m, reading(context, 0, dtype), reading(context, 1, dtype), divisor,
               writing(context, 0, dtype));
      }
    };
    TESSERA_TRY(submit(std::move(work)));
    return context_.release(p_);
  }

  // The buffer holds what was to be compressed.
  Status keep_error() {
    TESSERA_ASSERT(state_.error.valid(), "what was compressed was noted before");
    const View kept = all(state_.error, bucket_.numel);
    Compute work{.cost = {}, .reads = {bucket_, kept}, .writes = {kept}, .body = {}};
    work.cost.elementwise_bytes =
        3 * static_cast<double>(bytes_of(bucket_.numel, bucket_.dtype).value);
    work.on_numbers = true;
    work.body = [plan = plan_, dtype = bucket_.dtype](const BodyContext& context) {
      const Numbers error = writing(context, 0, dtype);
      for (const LowRank& m : plan.matrices) {
        for (std::int64_t i = 0; i < m.rows * m.columns; ++i) {
          const Numel at = m.offset + Numel{i};
          error.set(at, error.at(at) - reading(context, 0, dtype).at(at));
        }
      }
      for (const BucketParameter& p : plan.rest) {
        for (std::int64_t i = 0; i < p.numel.value; ++i) error.set(p.offset + Numel{i}, 0);
      }
    };
    return submit(std::move(work));
  }

  EventId last() const { return last_; }

 private:
  Result<BufferId> allocate(const char* name, Numel numel) {
    return context_.allocate(fmt::format("powersgd.{}", name), bytes_of(numel, bucket_.dtype));
  }
  Status submit(decltype(Op::what) what) {
    TESSERA_ASSIGN(last_, context_.submit(std::move(what)));
    return {};
  }
  static Copy copy(const View& from, const View& to) {
    return {.pieces = {{.from = from, .to = to}}};
  }
  View all(BufferId buffer, Numel numel) const { return View::whole(buffer, bucket_.dtype, numel); }
  View p() const { return all(p_, plan_.p); }
  View q() const { return all(state_.q, plan_.q); }
  ComputeCost cost() const {
    return {.matmul_flops = flops(plan_),
            .elementwise_bytes = static_cast<double>(bytes_of(bucket_.numel, bucket_.dtype).value),
            .dtype = bucket_.dtype};
  }

  Compressed& state_;
  const LowRankPlan& plan_;
  const View bucket_;
  HookContext& context_;
  BufferId p_;
  EventId last_;
};

class PowerSgdHook final : public CommHook {
 public:
  explicit PowerSgdHook(const PowerSgdOptions& options) : options_(options) {}
  std::string_view name() const override { return "powersgd"; }

  Status attach() override {
    if (options_.rank < 1) {
      return Status(Code::invalid_argument,
                    fmt::format("PowerSGD: rank {}, must be at least 1", options_.rank));
    }
    const bool keeps = options_.error_feedback || options_.warm_start;
    if (options_.start_iteration <= 1 && keeps) {
      return Status(Code::invalid_argument,
                    fmt::format("PowerSGD: start_iteration {}, must be at least 2 with error "
                                "feedback or warm start: what they keep would not fit the buckets "
                                "that are rebuilt after the first step",
                                options_.start_iteration));
    }
    if (attached_) {
      return Status(Code::invalid_argument,
                    "PowerSGD: this hook serves an engine already and keeps state for it: make "
                    "another one");
    }
    attached_ = true;
    return {};
  }

  void detach() override {
    attached_ = false;
    iteration_ = 0;
    buckets_.clear();
  }

  Result<EventId> reduce(const GradBucket& bucket, HookContext& context) override {
    const bool compresses = iteration_ >= options_.start_iteration;
    auto reduced =
        compresses ? compressed(bucket, context) : reduce_to_mean(bucket.values, context);
    if (bucket.is_last) ++iteration_;
    return reduced;
  }

 private:
  Result<EventId> compressed(const GradBucket& bucket, HookContext& context) {
    Compressed& state = buckets_[bucket.index];
    TESSERA_TRY(adopt(state, bucket, context));
    if (state.plan.matrices.empty()) return reduce_to_mean(bucket.values, context);
    Compression work(state, bucket, context);
    if (options_.error_feedback) TESSERA_TRY(work.add_error());
    TESSERA_TRY(work.reduce_rest());
    TESSERA_TRY(work.begin_q(options_.seed + (static_cast<std::uint64_t>(iteration_) << 40) +
                             (static_cast<std::uint64_t>(bucket.index) << 20)));
    TESSERA_TRY(work.reduce_factors());
    TESSERA_TRY(work.decompress());
    if (options_.error_feedback) TESSERA_TRY(work.keep_error());
    if (!options_.warm_start) TESSERA_TRY(context.release(std::exchange(state.q, BufferId{})));
    return work.last();
  }

  // Buckets may have been rebuilt since the last time.
  Status adopt(Compressed& state, const GradBucket& bucket, HookContext& context) {
    if (state.numel == bucket.values.numel) return {};
    for (BufferId id : {state.error, state.q}) {
      if (id.valid()) TESSERA_TRY(context.release(id));
    }
    state = {.numel = bucket.values.numel,
             .plan = plan_low_rank(bucket.parameters, options_.rank, options_.min_compression_rate),
             .error = {},
             .q = {}};
    return {};
  }

  const PowerSgdOptions options_;
  bool attached_ = false;
  std::int32_t iteration_ = 0;
  std::map<std::size_t, Compressed> buckets_;  // by index
};

}  // namespace

std::shared_ptr<CommHook> power_sgd_hook(const PowerSgdOptions& options) {
  return std::make_shared<PowerSgdHook>(options);
}

}  // namespace tessera
