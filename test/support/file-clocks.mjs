import { existsSync, openSync, readSync } from 'node:fs'
import { createClocks as createRealClocks } from './real-clocks.js'

// Takes the place of `wiring/clocks.js` in a program under test. A file `clocks` in the working directory has the times
// of both clocks. Without the file, the clocks are those of the machine.
const FILE = 'clocks'

function readClocks() {
  if (!existsSync(FILE)) return {}
  const file = openSync(FILE)
  const times = new Float64Array(2)
  const read = index => () => {
    readSync(file, times, 0, times.byteLength, 0)
    return times[index]
  }
  return { now: read(0), monotonicNow: read(1) }
}

export const createClocks = (given = {}) => createRealClocks({ ...readClocks(), ...given })
