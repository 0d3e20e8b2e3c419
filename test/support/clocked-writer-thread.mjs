import { existsSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { createClocks } from '../../../wiring/clocks.js'
import { createCalls } from '../../../workers/calls.js'
import { createThreadPort } from '../../../workers/thread-port.js'
import { runWriter } from './run-writer.js'

// Takes the place of `storage/sqlite/writer/writer-thread.js` in a program under test, and uses the clocks of the test.
const clocks = existsSync('clocks') ? createClocks() : undefined
runWriter(createCalls(createThreadPort(parentPort)), clocks)
