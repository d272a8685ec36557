// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/span_pyramid.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/random.h"

namespace tessera::inspector {
namespace {

struct Spans {
  std::vector<Time> begin, ready, end;
  std::vector<OpClass> classes;
};

Spans random_spans(test::Random& random, std::int64_t count) {
  Spans spans;
  Time at = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    at += random.below(50);
    spans.begin.push_back(at);
    const Time length = 1 + random.below(random.chance(5) ? 5000 : 60);
    spans.ready.push_back(at + (random.chance(50) ? random.below(length + 1) : 0));
    at += length;
    spans.end.push_back(at);
    spans.classes.push_back(static_cast<OpClass>(random.below(op_class_count)));
  }
  return spans;
}

double exact_busy(const Spans& spans, double from, double to) {
  double sum = 0;
  for (std::size_t i = 0; i < spans.begin.size(); ++i) {
    sum += std::max(0.0, std::min(to, static_cast<double>(spans.end[i])) -
                             std::max(from, static_cast<double>(spans.begin[i])));
  }
  return sum;
}

double exact_wait(const Spans& spans, double from, double to) {
  double sum = 0;
  for (std::size_t i = 0; i < spans.begin.size(); ++i) {
    sum += std::max(0.0, std::min(to, static_cast<double>(spans.ready[i])) -
                             std::max(from, static_cast<double>(spans.begin[i])));
  }
  return sum;
}

TEST_CASE("waiting is told from work at every zoom", "[inspector][pyramid]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Spans spans = random_spans(random, 1 + random.below(3000));
  const SpanPyramid pyramid(spans.begin, spans.ready, spans.end, spans.classes);
  const int columns = static_cast<int>(1 + random.below(300));
  const Time to = (spans.end.back() / columns + 1) * columns;
  const auto out =
      pyramid.columns(0, to, columns, 1e18, [](std::size_t) { FAIL("nothing is that wide"); });
  const double width = static_cast<double>(to) / columns;
  for (int c = 0; c < columns; ++c) {
    INFO("column " << c);
    CHECK(out[static_cast<std::size_t>(c)].wait * width ==
          Approx(exact_wait(spans, c * width, (c + 1) * width)).margin(1e-6 * width + 1e-6));
  }
}

TEST_CASE("every column of a lane shows exactly how long something runs in it",
          "[inspector][pyramid]") {
  const std::uint64_t seed = GENERATE(range(1, 80));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Spans spans = random_spans(random, 1 + random.below(3000));
  const SpanPyramid pyramid(spans.begin, spans.ready, spans.end, spans.classes);
  const Time last = spans.end.back();
  const Time from = random.below(last + 1) - 20;
  const Time to = from + 1 + random.below(last + 40);
  const int columns = static_cast<int>(1 + random.below(300));
  const auto out =
      pyramid.columns(from, to, columns, 1e18, [](std::size_t) { FAIL("nothing is that wide"); });
  REQUIRE(out.size() == static_cast<std::size_t>(columns));
  const double width = static_cast<double>(to - from) / columns;
  for (int c = 0; c < columns; ++c) {
    const double left = static_cast<double>(from) + c * width;
    INFO("column " << c);
    CHECK(out[static_cast<std::size_t>(c)].busy * width ==
          Approx(exact_busy(spans, left, left + width)).margin(1e-6 * width + 1e-6));
  }
}

TEST_CASE("wide spans are handed out, the others merged, none twice", "[inspector][pyramid]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Spans spans = random_spans(random, 500);
  const SpanPyramid pyramid(spans.begin, spans.ready, spans.end, spans.classes);
  const Time to = spans.end.back();
  const double ns_per_px = static_cast<double>(to) / 400;
  double handed = 0;
  std::vector<int> seen(spans.begin.size(), 0);
  const auto out = pyramid.columns(0, to, 400, 3, [&](std::size_t i) {
    ++seen[i];
    handed += static_cast<double>(spans.end[i] - spans.begin[i]);
  });
  double merged = 0;
  for (const LaneColumn& column : out) merged += column.busy * ns_per_px;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const bool wide = static_cast<double>(spans.end[i] - spans.begin[i]) >= 3 * ns_per_px;
    CHECK(seen[i] == (wide ? 1 : 0));
  }
  CHECK(handed + merged == Approx(exact_busy(spans, 0, static_cast<double>(to))));
}

TEST_CASE("busy time over any range equals the sum of the parts", "[inspector][pyramid]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  test::Random random(seed);
  const Spans spans = random_spans(random, 1 + random.below(2000));
  const SpanPyramid pyramid(spans.begin, spans.ready, spans.end, spans.classes);
  for (int k = 0; k < 20; ++k) {
    const Time from = random.below(spans.end.back() + 1);
    const Time to = from + random.below(spans.end.back() + 1);
    CHECK(static_cast<double>(pyramid.busy(from, to)) ==
          exact_busy(spans, static_cast<double>(from), static_cast<double>(to)));
  }
}

TEST_CASE("a million spans cost no more than the pixels they fall on", "[inspector][pyramid]") {
  Spans spans;
  for (Time k = 0; k < 1'000'000; ++k) {
    spans.begin.push_back(k * 10);
    spans.ready.push_back(k * 10);
    spans.end.push_back(k * 10 + 7);
    spans.classes.push_back(OpClass::forward);
  }
  const SpanPyramid pyramid(spans.begin, spans.ready, spans.end, spans.classes);
  for (const Time to : {10'000'000, 1'000'000, 100'000, 1'000}) {
    std::int64_t visited = 0;
    pyramid.columns(
        0, to, 1400, 3, [](std::size_t) {}, &visited);
    CHECK(visited < 40'000);
  }
}

}  // namespace
}  // namespace tessera::inspector
