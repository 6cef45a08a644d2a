#include "compiler/Frontend.h"
void definedNowhere();
NANO_MODEL { definedNowhere(); }
