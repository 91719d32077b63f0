// What this CPU and this kernel of Linux allow.
#pragma once

#include "program.h"

namespace tidemark {

bool supports(Level level);  // asks Linux for the tile registers the first time that they are wanted

}  // namespace tidemark
