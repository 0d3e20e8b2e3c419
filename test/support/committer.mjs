// Commits changes to a database without a pause until it is killed. Sends a message when it has begun.
import { Database } from '../../dist/storage/sqlite/sqlite-driver.js'

const database = new Database(process.argv[2], { timeout: 5000 })
database.pragma('synchronous = OFF')
const change = database.prepare('UPDATE users_summary SET revision = revision + 1')
change.run()
process.send('begun')
for (;;) change.run()
