import { describe } from 'vitest'
import { describeOneDatabase } from '../engines/one-database.ts'

describe('two services of one SQLite file', describeOneDatabase)
