import { fileURLToPath } from 'node:url'

/** Tests run the service on the timers of `global-timers.ts`. */
export const TIMERS_ALIAS = [
  {
    find: /^(?:\.\.?\/)+(?:platform\/)?timers\.ts$/,
    replacement: fileURLToPath(new URL('global-timers.ts', import.meta.url)),
  },
]
