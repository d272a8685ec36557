// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/attention.h"

#include "tests/training/kernels/numbers.h"
#include "training/kernels/attention_onward.h"
#include "training/kernels/threads.h"

namespace tessera {
namespace {

using kernels::Array;
using kernels::AttentionShape;
using test::Doubles;
using test::Numbers;

struct Tokens {
  const AttentionShape& s;
  const Doubles &q, &k, &v;

  std::size_t query(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return static_cast<std::size_t>((b * s.length + t) * s.q_stride + h * s.head_dim);
  }
  std::size_t key(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return static_cast<std::size_t>((b * s.length + t) * s.kv_stride +
                                    h / (s.heads / s.kv_heads) * s.head_dim);
  }
  std::size_t out(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return static_cast<std::size_t>(((b * s.length + t) * s.heads + h) * s.head_dim);
  }

  Doubles weights(std::int64_t b, std::int64_t t, std::int64_t h) const {
    Doubles p;
    double sum = 0;
    for (std::int64_t u = 0; u <= t; ++u) {
      double score = 0;
      for (std::int64_t i = 0; i < s.head_dim; ++i) {
        score += q[query(b, t, h) + static_cast<std::size_t>(i)] *
                 k[key(b, u, h) + static_cast<std::size_t>(i)];
      }
      p.push_back(std::exp(score / std::sqrt(static_cast<double>(s.head_dim))));
      sum += p.back();
    }
    for (double& w : p) w /= sum;
    return p;
  }

  template <class F>
  void for_each(const F& f) const {
    for (std::int64_t b = 0; b < s.batch; ++b) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        for (std::int64_t t = 0; t < s.length; ++t) f(b, t, h, weights(b, t, h));
      }
    }
  }

  Doubles forward() const {
    Doubles o(static_cast<std::size_t>(s.batch * s.length * s.heads * s.head_dim), 0);
    for_each([&](std::int64_t b, std::int64_t t, std::int64_t h, const Doubles& p) {
      for (std::int64_t u = 0; u <= t; ++u) {
        for (std::size_t i = 0; i < static_cast<std::size_t>(s.head_dim); ++i) {
          o[out(b, t, h) + i] += p[static_cast<std::size_t>(u)] * v[key(b, u, h) + i];
        }
      }
    });
    return o;
  }

  void backward(const Doubles& dout, Doubles& dq, Doubles& dk, Doubles& dv) const {
    const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
    const auto d = static_cast<std::size_t>(s.head_dim);
    for_each([&](std::int64_t b, std::int64_t t, std::int64_t h, const Doubles& p) {
      Doubles dp(p.size(), 0);
      double along = 0;
      for (std::size_t u = 0; u < p.size(); ++u) {
        const std::size_t at = key(b, static_cast<std::int64_t>(u), h);
        for (std::size_t i = 0; i < d; ++i) {
          dp[u] += dout[out(b, t, h) + i] * v[at + i];
          dv[at + i] += p[u] * dout[out(b, t, h) + i];
        }
        along += p[u] * dp[u];
      }
      for (std::size_t u = 0; u < p.size(); ++u) {
        const std::size_t at = key(b, static_cast<std::int64_t>(u), h);
        const double ds = p[u] * (dp[u] - along) * scale;
        for (std::size_t i = 0; i < d; ++i) {
          dq[query(b, t, h) + i] += ds * k[at + i];
          dk[at + i] += ds * q[query(b, t, h) + i];
        }
      }
    });
  }
};

struct Outcome {
  Numbers out, dq, dk, dv;
};

Outcome run(const AttentionShape& s, int threads, Numbers& q, Numbers& k, Numbers& v,
            Numbers& dout) {
  kernels::limit_threads(threads);
  kernels::Matmuls matmuls(threads);
  auto attention = kernels::Attention::prepare(matmuls, s, threads);
  INFO(attention.status().message());
  REQUIRE(attention.ok());
  Outcome r{Numbers(dout.size(), s.dtype), Numbers(q.size(), s.dtype), Numbers(k.size(), s.dtype),
            Numbers(v.size(), s.dtype)};
  std::vector<float> statistics(static_cast<std::size_t>(2 * s.rows()));
  const Bytes scratch_per_thread{(matmuls.scratch().value + 63) / 64 * 64};
  std::vector<float> memory(static_cast<std::size_t>(
      (attention->temporary().value + scratch_per_thread.value * threads) / 4 + 32));
  auto* temporary = reinterpret_cast<std::byte*>(memory.data());
  temporary += (64 - reinterpret_cast<std::uintptr_t>(temporary) % 64) % 64;
  auto* scratch = temporary + attention->temporary().value;
  attention->forward({q.array(), k.array(), v.array()}, r.out.array(), statistics.data(), temporary,
                     scratch, scratch_per_thread);
  attention->backward({q.array(), k.array(), v.array()}, r.out.array(), dout.array(),
                      statistics.data(), {r.dq.array(), r.dk.array(), r.dv.array()}, temporary,
                      scratch, scratch_per_thread);
  return r;
}

}  // namespace

TEST_CASE("attention and its gradients are those of double precision", "[kernels]") {
  for (std::uint64_t seed = 1; seed <= 18; ++seed) {
    test::Random random(seed);
    INFO("seed " << seed);
    AttentionShape s{.batch = 1 + random.below(3), .head_dim = 1 + random.below(20)};
    s.length = seed % 4 == 0 ? 100 + random.below(60) : 1 + random.below(70);
    s.kv_heads = 1 + random.below(3);
    s.heads = s.kv_heads * (1 + random.below(3));
    s.dtype = test::computed_dtypes[seed % 3];
    s.q_stride = s.heads * s.head_dim;
    s.kv_stride = s.kv_heads * s.head_dim;
    Numbers q = Numbers::random(random, s.batch * s.length * s.q_stride, s.dtype, 2);
    Numbers k = Numbers::random(random, s.batch * s.length * s.kv_stride, s.dtype, 2);
    Numbers v = Numbers::random(random, s.batch * s.length * s.kv_stride, s.dtype);
    Numbers dout = Numbers::random(random, s.batch * s.length * s.out_stride(), s.dtype);
    const Outcome one = run(s, 1, q, k, v, dout);
    const Doubles dq = q.doubles();
    const Doubles dk = k.doubles();
    const Doubles dv = v.doubles();
    const Tokens tokens{s, dq, dk, dv};
    const double near = test::attention_tolerance(s.dtype);
    test::check_near(one.out, tokens.forward(), near);
    Doubles eq(dq.size(), 0), ek(dk.size(), 0), ev(dv.size(), 0);
    tokens.backward(dout.doubles(), eq, ek, ev);
    test::check_near(one.dq, eq, near);
    test::check_near(one.dk, ek, near);
    test::check_near(one.dv, ev, near);
    const Outcome two = run(s, 2, q, k, v, dout);
    CHECK(one.out.doubles() == two.out.doubles());
    CHECK(one.dk.doubles() == two.dk.doubles());
  }
}

TEST_CASE("queries that come later see all keys before them", "[kernels]") {
  for (std::uint64_t seed = 1; seed <= 18; ++seed) {
    test::Random random(seed);
    INFO("seed " << seed);
    AttentionShape s{.length = 1 + random.below(90), .head_dim = 1 + random.below(40)};
    s.kv_heads = 1 + random.below(3);
    s.heads = s.kv_heads * (1 + random.below(3));
    s.dtype = test::computed_dtypes[seed % 3];
    s.q_stride = s.heads * s.head_dim + random.below(5);
    s.kv_stride = s.kv_heads * s.head_dim + random.below(5);
    Numbers q = Numbers::random(random, s.length * s.q_stride, s.dtype, 2);
    Numbers k = Numbers::random(random, s.length * s.kv_stride, s.dtype, 2);
    Numbers v = Numbers::random(random, s.length * s.kv_stride, s.dtype);
    const Doubles dq = q.doubles(), dk = k.doubles(), dv = v.doubles();
    const Doubles all = Tokens{s, dq, dk, dv}.forward();
    const std::int64_t first = random.below(s.length);
    AttentionShape onward = s;
    onward.length -= first;
    Numbers out(static_cast<std::size_t>(onward.length * s.out_stride()), s.dtype);
    const int threads = 1 + static_cast<int>(seed % 2);
    std::vector<float> scores(static_cast<std::size_t>(s.length * threads));
    kernels::attention_onward(onward, first,
                              {q.array().from(first * s.q_stride), k.array(), v.array()},
                              out.array(), scores.data(), threads);
    test::check_near(out, {all.begin() + first * s.out_stride(), all.end()},
                     test::attention_tolerance(s.dtype));
  }
}

}  // namespace tessera
