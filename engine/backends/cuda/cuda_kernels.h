// SPDX-License-Identifier: Apache-2.0
// The kernels of a body on the device: each call is queued on the stream of the body's operation.
//
// Calls of AdamW, of norms and of clipping that follow each other become one, since models have
// many small parameters: they are kept until another call, or `finish`.
#pragma once

#include <functional>
#include <vector>

#include "engine/backends/cuda/device_math.h"
#include "engine/backends/cuda/kernel_api.h"
#include "engine/backends/cuda/mailbox.h"

namespace tessera {

class CudaKernels final : public Kernels {
 public:
  /// The parts of the backend that all bodies share.
  struct Device {
    const CudaApi& cuda;
    const KernelApi& api;
    Mailbox& mailbox;
    DeviceMath* math;
    bool recorded = false;  // into a graph, which is launched again without the host
  };
  /// Copies to the host after all work enqueued on the stream so far, and waits for it.
  using ToHost =
      std::function<Status(std::span<const std::byte> device, std::span<std::byte> host)>;
  CudaKernels(const Device& device, CudaStream stream, void* workspace, ToHost to_host)
      : device_(device),
        api_(device.api),
        stream_(stream),
        workspace_(workspace),
        to_host_(std::move(to_host)) {}

  void scale(ConstElements from, Elements to, float factor) override;
  void divide(Elements values, float divisor) override;
  void add(ConstElements from, Elements into) override;
  void adam(const AdamNumbers& numbers, ConstElements gradient, Elements values, Elements exp_avg,
            Elements exp_avg_sq) override;
  void adam_in_halves(const AdamNumbers& numbers, const RandomRounding& rounding,
                      ConstElements gradient, Elements values, Elements exp_avg,
                      Elements exp_avg_sq) override;
  void add_norm(Norm norm, ConstElements values, Elements one) override;
  void clip(Norm norm, ConstElements sum, float max_norm, Elements values) override;
  void unscale(Elements values, float factor, Elements found) override;
  void quantize(const BlockFormat& format, ConstElements from, std::span<const std::int64_t> rows,
                std::span<std::byte> codes, Elements scales) override;
  void dequantize(const BlockFormat& format, std::span<const std::byte> codes, ConstElements scales,
                  Elements to) override;
  void read(ConstElements from, std::span<float> to) override;
  void write(std::span<const float> from, Elements to) override;
  void send(std::span<const std::byte> from, std::span<std::byte> to) override;
  void receive(std::span<const std::byte> from, Mailbox::Then then) override;
  kernels::Math* math() override;

  /// Queues what is kept: the last call. The first error, after which calls did nothing.
  Status finish();
  /// How many entries of the stream the calls have taken, at most.
  int launches() const;

 private:
  enum class Kind : std::uint8_t { none, adam, add_norm, clip };
  struct Kept {
    Kind kind = Kind::none;
    Norm norm = Norm::l2;
    float max_norm = 0;
    float* one = nullptr;
    std::vector<AdamArrays> adam;
    std::vector<KernelArray> values;
  };

  /// Whether a call may be queued: nothing has failed. Then what is kept has been.
  bool ready();
  /// The kept calls if they are of this kind; others are queued before.
  Kept& kept(Kind kind, Norm norm = {}, float max_norm = 0, float* one = nullptr);
  void queue_kept();
  Status status() const;
  void launched(int code, const char* name);
  /// Whether nothing has failed and the host may take part; in a recorded body it may not.
  bool with_host();

  const Device device_;
  const KernelApi& api_;
  const CudaStream stream_;
  void* const workspace_;
  const ToHost to_host_;
  Status status_;
  Kept kept_;
  bool uses_math_ = false;
  int launches_ = 0;  // without those of the mathematics
};

}  // namespace tessera
