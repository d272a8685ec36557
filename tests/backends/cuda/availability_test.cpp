// SPDX-License-Identifier: Apache-2.0
// Why there is no backend for GPUs, by name.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tessera/cuda_runtime.h"
#include "tests/backends/cuda/stand_in/stand_in.h"

namespace tessera {
namespace {

using test::StandIn;
using test::StandInOptions;

std::string why_not(const StandInOptions& options) {
  StandIn world(options);
  const Status status = check_cuda(StandIn::module());
  CHECK((status.ok() || status.code() == Code::not_supported));
  return status.message();
}

TEST_CASE("each missing piece has a sentence of its own", "[cuda]") {
  CHECK(why_not({}).empty());
  CHECK(why_not({.driver_version = 0, .devices_code = 35}) ==
        "there is no NVIDIA driver here: CUDA 13.0 needs one (code 35: an error of the stand-in)");
  CHECK(why_not({.driver_version = 12040, .devices_code = 35}) ==
        "the NVIDIA driver is for CUDA 12.4, this build needs CUDA 13.0 (code 35: an error of the "
        "stand-in): install a newer driver");
  CHECK(why_not({.devices_code = 100}) ==
        "the NVIDIA driver is here, but no GPU that it offers (code 100: an error of the "
        "stand-in): check CUDA_VISIBLE_DEVICES");
  CHECK(why_not({.devices_code = 3}) == "CUDA does not start: code 3: an error of the stand-in");
  CHECK(why_not({.nccl_version = 21805}) ==
        "NCCL 2.18.5 does not fit: 2.20.0 or newer is needed, but below 3.0.0");
  StandIn world({.ranks = 2});
  CHECK(describe_cuda(StandIn::module()) ==
        "2 x stand-in, CUDA 13.0, driver for CUDA 13.0, NCCL 2.28.9");
}

TEST_CASE("a GPU that does not compute what is asked for is named", "[cuda]") {
  CHECK(why_not({.capability = 80}).empty());
  CHECK(why_not({.capability = 120}).empty());
  CHECK(why_not({.capability = 75}) ==
        "stand-in has compute capability 7.5, but kernels need 8.0 (A100) or a younger one: train "
        "on another GPU, or with --device cpu");
  const auto refused = [](const StandInOptions& options, const MathOptions& wanted) {
    StandIn world(options);
    return check_device(StandIn::module(), 0, wanted).message();
  };
  CHECK(refused({}, {.hopper_attention = true, .fp8 = true}).empty());
  CHECK(refused({.capability = 80}, {.hopper_attention = true}) ==
        "stand-in has compute capability 8.0, but attention for Hopper runs on 9.0 (H100, H200) "
        "alone: leave out --hopper-attention");
  for (const int capability : {80, 89, 100, 120}) {
    CHECK(refused({.capability = capability}, {.fp8 = true})
              .ends_with("cuBLASLt multiplies fp8 with scales of blocks on 9.0 (H100, H200) alone: "
                         "leave out --matmul-dtype fp8"));
  }
  CHECK(refused({.cublas_version = 120805}, {.fp8 = true}) ==
        "cuBLASLt 12.8 does not multiply fp8 with scales of blocks, 12.9 and younger do: install "
        "it, or leave out --matmul-dtype fp8");
}

TEST_CASE("a module that is missing or cannot be opened is named", "[cuda]") {
  const auto missing = cuda_available("/nowhere");
  CHECK(missing.status().code() == Code::not_supported);
  CHECK(missing.status().message().starts_with("libtessera_cuda.so is not there: configure with"));
  const std::string folder = TESSERA_BINARY_DIR "/tests/cuda/broken_module";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libtessera_cuda.so") << "no library";
  const auto broken = make_cuda_runtime({}, folder);
  CHECK(broken.status().code() == Code::not_supported);
  CHECK(broken.status().message().starts_with("cannot open " + folder + "/libtessera_cuda.so: "));
}

}  // namespace
}  // namespace tessera
