// SPDX-License-Identifier: Apache-2.0
// Published numbers, each with its source.
#include <catch2/catch.hpp>
#include <cmath>

#include "tessera/estimate.h"

namespace tessera {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;
constexpr double mib = 1024.0 * 1024;

// arXiv 1910.02054, table 1: GB (1e9 bytes) per device, of stages 1, 2 and 3. The paper rounds
// some numbers and cuts others, so the last digit may differ by one.
TEST_CASE("memory of model states is that of the ZeRO paper's table 1", "[estimate]") {
  struct Row {
    double ranks;
    double gb[3];
    double digit;
  };
  const auto check = [](double parameters, const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      for (std::int32_t stage = 1; stage <= 3; ++stage) {
        INFO(parameters << " parameters on " << row.ranks << " ranks, stage " << stage);
        const double gb = zero_model_states(stage, parameters, row.ranks) / 1e9;
        const double printed = row.gb[stage - 1];
        // A small number has more digits.
        const double digit = std::floor(printed) == printed ? row.digit : row.digit / 10;
        CHECK(std::fabs(gb - printed) < digit);
      }
    }
  };
  check(7.5e9, {{1, {120, 120, 120}, 1},
                {4, {52.5, 41.3, 30}, 1},
                {16, {35.6, 21.6, 7.5}, 1},
                {64, {31.4, 16.6, 1.88}, 1},
                {256, {30.4, 15.4, 0.47}, 1},
                {1024, {30.1, 15.1, 0.12}, 1}});
  check(128e9, {{1, {2048, 2048, 2048}, 1},
                {4, {896, 704, 512}, 1},
                {16, {608, 368, 128}, 1},
                {64, {536, 284, 32}, 1},
                {256, {518, 263, 8}, 1},
                {1024, {513, 257, 2}, 1}});
  check(1e12, {{1, {16000, 16000, 16000}, 1},
               {4, {7000, 5500, 4000}, 1},
               {16, {4750, 2875, 1000}, 1},
               {64, {4187, 2218, 250}, 1},
               {256, {4046, 2054, 62.5}, 1},
               {1024, {4011, 2013, 15.6}, 1}});
}

// The same paper, table 2: the largest model on 64 GPUs of 32 GB, in units of 1e9 parameters, for
// data parallelism and stages 1 to 3.
TEST_CASE("the largest model per GPU is that of the ZeRO paper's table 2", "[estimate]") {
  const double printed[] = {2, 7.6, 14.4, 128};
  for (std::int32_t stage = 0; stage <= 3; ++stage) {
    const double largest = 32e9 / zero_model_states(stage, 1, 64) / 1e9;
    CHECK(std::fabs(largest - printed[stage]) < 0.05);
  }
  CHECK(zero_volume(2) == 2);
  CHECK(zero_volume(3) == 1.5 * zero_volume(0));
}

// DeepSpeed, docs/code-docs/source/memory.rst: a model of 2851M parameters whose largest layer has
// 32M, on 8 GPUs of one node; GiB of host and device.
TEST_CASE("DeepSpeed's estimates are those of its documentation", "[estimate]") {
  DeepSpeedQuestion q{.stage = 3, .parameters = 2851e6, .largest_layer = 32e6, .gpus_per_node = 8};
  const auto check = [&q](bool parameters, bool optimizer, bool init, double host, double device) {
    q.offload_parameters = parameters;
    q.offload_optimizer = optimizer;
    q.zero_init = init;
    INFO(parameters << optimizer << init);
    CHECK(std::fabs(deepspeed_estimate(q).host / gib - host) < 0.01);
    CHECK(std::fabs(deepspeed_estimate(q).device / gib - device) < 0.01);
  };
  check(true, true, true, 71.69, 0.12);
  check(true, true, false, 127.45, 0.12);
  check(false, true, true, 63.72, 0.78);
  check(false, true, false, 127.45, 0.78);
  check(false, false, true, 1.43, 6.09);
  check(false, false, false, 127.45, 6.09);
  q.stage = 2;
  check(false, true, true, 127.45, 5.31);
  check(false, false, true, 127.45, 11.28);
  q.as_0_9_0 = true;
  check(false, false, true, 127.45, 15.93);
}

// The same for t5-large on 4 GPUs, MiB of device memory, which DeepSpeed prints without fraction.
TEST_CASE("DeepSpeed's estimates for t5-large are those of its documentation", "[estimate]") {
  DeepSpeedQuestion q{
      .stage = 3, .parameters = 737.67e6, .largest_layer = 32.90e6, .gpus_per_node = 4};
  q.offload_optimizer = q.offload_parameters = true;
  CHECK(std::floor(deepspeed_estimate(q).device / mib) == 125);
  q.offload_parameters = false;
  CHECK(std::floor(deepspeed_estimate(q).device / mib) == 477);
  q.offload_optimizer = false;
  CHECK(std::floor(deepspeed_estimate(q).device / mib) == 3291);
}

// arXiv 2104.07857, figure 3: 70 TFLOP/s, sequences of 1024; to 0.1 percentage points.
TEST_CASE("efficiency over bandwidth is that of ZeRO-Infinity's figure 3", "[estimate]") {
  const auto percent = [](double intensity, double gb_per_s) {
    return 100 * efficiency(intensity, gb_per_s * 1e9, 70e12);
  };
  const auto near = [](double value, double printed) { return std::fabs(value - printed) < 0.1; };
  CHECK(near(percent(intensity_of_parameters(1024, 1), 70), 50.6));
  CHECK(near(percent(intensity_of_parameters(1024, 2), 70), 67.2));
  CHECK(near(percent(intensity_of_parameters(1024, 4), 70), 80.4));
  CHECK(std::fabs(percent(intensity_of_parameters(1024, 1), 244) - 78) < 0.5);  // printed so
  CHECK(near(percent(intensity_of_optimizer(1024, 2), 1500), 91.6));
  CHECK(near(percent(intensity_of_optimizer(1024, 1), 280), 50.6));
  const double printed[] = {41.3, 58.4, 73.7, 84.9, 91.8, 95.7};
  for (int k = 0; k < 6; ++k) {
    CHECK(near(percent(intensity_of_activations(2048 << k, 1), 1), printed[k]));
  }
}

}  // namespace
}  // namespace tessera
