// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/gutter.h"

#include <algorithm>

#include "inspector/model/view_state.h"
#include "inspector/widgets/drawing.h"

namespace tessera::inspector {

float gutter_of(const Surface& ui, TraceModel& model, Rank rank, float width, float beside_px) {
  constexpr float around_px = 13, share_most = 0.25F, most_px = 200;
  float longest = 0;
  for (const std::int32_t stream : model.lanes_of(rank)) {
    longest = std::max(longest, text_width(ui.fonts.small, model.stream(stream).name));
  }
  const float scale = ui.theme.px(1);
  const float wanted = longest / scale + around_px + beside_px;
  return std::clamp(wanted, least_gutter_px,
                    std::max(least_gutter_px, std::min(most_px, share_most * width / scale)));
}

}  // namespace tessera::inspector
