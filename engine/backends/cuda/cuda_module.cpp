// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/cuda_module.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "engine/backends/host/module_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* file = "libtessera_cuda.so";

Status not_supported(std::string why) { return Status(Code::not_supported, std::move(why)); }

Result<const CudaModule*> open_file(const fs::path& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return not_supported(
        fmt::format("cannot open {}: {}; install the CUDA toolkit's runtime and NCCL",
                    path.string(), dlerror()));
  }
  const auto get = reinterpret_cast<GetCudaModule>(dlsym(handle, "tessera_cuda_module"));
  const CudaModule* const found = get == nullptr ? nullptr : get();
  if (found == nullptr || found->version != cuda_module_version) {
    return not_supported(fmt::format(
        "{} belongs to another version of this program: install both together", path.string()));
  }
  return found;
}

std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

constexpr std::size_t cublas_version_of_fp8 = 120900;

std::string cublas_version(std::size_t version) {
  return fmt::format("{}.{}", version / 10000, version / 100 % 100);
}

std::string nccl_version(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

Result<const CudaModule*> open_cuda_module(const std::string& folder) {
  if (const auto path = find_module(file, folder)) return open_file(*path);
  return not_supported(
      fmt::format("{} is not there: configure with -DTESSERA_CUDA=ON, or run without GPUs", file));
}

Status check_cuda(const CudaModule& module) {
  int driver = 0;
  int runtime = 0;
  module.cuda.driver_get_version(&driver);
  module.cuda.runtime_get_version(&runtime);
  int devices = 0;
  const int code = module.cuda.get_device_count(&devices);
  if (driver == 0) {
    return not_supported(
        fmt::format("there is no NVIDIA driver here: CUDA {} needs one (code {}: {})",
                    cuda_version(runtime), code, module.cuda.get_error_string(code)));
  }
  if (code == cuda_insufficient_driver) {
    return not_supported(fmt::format(
        "the NVIDIA driver is for CUDA {}, this build needs CUDA {} (code {}: {}): "
        "install a newer driver",
        cuda_version(driver), cuda_version(runtime), code, module.cuda.get_error_string(code)));
  }
  if (code == cuda_no_device || (code == cuda_success && devices == 0)) {
    return not_supported(
        fmt::format("the NVIDIA driver is here, but no GPU that it offers (code {}: {}): check "
                    "CUDA_VISIBLE_DEVICES",
                    cuda_no_device, module.cuda.get_error_string(cuda_no_device)));
  }
  if (code != cuda_success) {
    return not_supported(
        fmt::format("CUDA does not start: code {}: {}", code, module.cuda.get_error_string(code)));
  }
  TESSERA_TRY(check_device(module, 0, {}));
  int nccl = 0;
  const int nccl_code = module.nccl.get_version(&nccl);
  if (nccl_code != nccl_success || nccl < nccl_version_min || nccl >= nccl_version_end) {
    return not_supported(fmt::format("NCCL {} does not fit: {} or newer is needed, but below {}",
                                     nccl_version(nccl), nccl_version(nccl_version_min),
                                     nccl_version(nccl_version_end)));
  }
  return {};
}

Status check_device(const CudaModule& module, int device, const MathOptions& wanted) {
  int capability = 0;
  const int code = module.cuda.device_get_capability(&capability, device);
  if (code != cuda_success) {
    return not_supported(fmt::format("CUDA does not tell what GPU {} can do: code {}: {}", device,
                                     code, module.cuda.get_error_string(code)));
  }
  const std::string here =
      fmt::format("{} has compute capability {}.{}", name_of_device(module.cuda, device),
                  capability / 10, capability % 10);
  if (capability < capability_min) {
    return not_supported(
        fmt::format("{}, but kernels need {}.0 (A100) or a younger one: train on "
                    "another GPU, or with --device cpu",
                    here, capability_min / 10));
  }
  constexpr int hopper = 9;
  const bool on_hopper = capability / 10 == hopper;
  if (wanted.hopper_attention && !on_hopper) {
    return not_supported(
        fmt::format("{}, but attention for Hopper runs on 9.0 (H100, H200) alone: leave out "
                    "--hopper-attention",
                    here));
  }
  if (!wanted.fp8) return {};
  if (!on_hopper) {
    return not_supported(
        fmt::format("{}, but cuBLASLt multiplies fp8 with scales of blocks on 9.0 (H100, H200) "
                    "alone: leave out --matmul-dtype fp8",
                    here));
  }
  const std::size_t cublas = module.cublas_version();
  if (cublas >= cublas_version_of_fp8) return {};
  return not_supported(
      fmt::format("cuBLASLt {} does not multiply fp8 with scales of blocks, 12.9 and younger do: "
                  "install it, or leave out --matmul-dtype fp8",
                  cublas_version(cublas)));
}

std::string name_of_device(const CudaApi& api, int device) {
  std::array<char, 256> name{};
  const int code = api.device_get_name(name.data(), static_cast<int>(name.size()), device);
  return code == cuda_success ? name.data() : "";
}

std::string describe_cuda(const CudaModule& module) {
  int driver = 0;
  int runtime = 0;
  int nccl = 0;
  int devices = 0;
  module.cuda.driver_get_version(&driver);
  module.cuda.runtime_get_version(&runtime);
  module.nccl.get_version(&nccl);
  module.cuda.get_device_count(&devices);
  return fmt::format("{} x {}, CUDA {}, driver for CUDA {}, NCCL {}", devices,
                     name_of_device(module.cuda, 0), cuda_version(runtime), cuda_version(driver),
                     nccl_version(nccl));
}

}  // namespace tessera
